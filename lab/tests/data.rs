//! `tandem-lab data` as a user runs it: complete conversions, and processes that are killed in the middle of
//! their work.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn lab(args: &[&str], dir: &Path) -> Output {
    common::lab(&[&["data"], args].concat(), dir)
}

fn run_ok(args: &[&str], dir: &Path) -> String {
    common::run_ok(&[&["data"], args].concat(), dir)
}

/// Starts a command and kills it after a while, so that it cannot clean up.
fn killed(args: &[&str], dir: &Path, after: Duration) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tandem-lab"))
        .arg("data")
        .args(args)
        .current_dir(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while start.elapsed() < after && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    child.wait().unwrap();
}

fn directory(name: &str) -> PathBuf {
    common::directory(&format!("data-{name}"))
}

/// Names of the files in a folder, sorted, without temporary ones (.part).
fn files(dir: &Path) -> Vec<String> {
    let names =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.contains(".part")).collect();
    names.sort();
    names
}

#[test]
fn games_are_the_same_if_the_process_is_killed_repeatedly() {
    let dir = directory("selfplay");
    let args = |stem: &'static str| {
        ["selfplay", stem, "--games", "24", "--nodes", "120", "--workers", "2", "--hash", "1"]
    };
    run_ok(&args("whole"), &dir);
    for _ in 0..4 {
        killed(&args("killed"), &dir, Duration::from_millis(250));
    }
    // The last killed run may have finished: then there is nothing to resume.
    if !dir.join("killed-0-of-2.vf").exists() || !dir.join("killed-1-of-2.vf").exists() {
        let _ = lab(&args("killed"), &dir);
    }
    for worker in 0..2 {
        let file = |stem: &str| std::fs::read(dir.join(format!("{stem}-{worker}-of-2.vf"))).unwrap();
        assert_eq!(file("whole"), file("killed"));
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn unsearched_leaves_need_a_format_without_moves() {
    let dir = directory("unsearched");
    run_ok(&["selfplay", "g", "--games", "8", "--nodes", "40", "--workers", "1", "--hash", "1"], &dir);
    let label = |out: &'static str| {
        ["label", "g-0-of-1.vf", "-o", out, "--leaves", "4", "--nodes", "8", "--hash", "1", "--unsearched"]
    };
    let refused = lab(&label("leaves.binpack"), &dir);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success());
    assert!(error.contains("--unsearched gives no moves") && error.contains(".csv"), "{error}");
    run_ok(&label("leaves.csv"), &dir);
    run_ok(&["convert", "leaves.csv", "-o", "quiet.csv", "--filter", "quiet"], &dir);
    let lines = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap().lines().count();
    assert!((100..lines("leaves.csv")).contains(&lines("quiet.csv")));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn labels_conversions_and_shuffles_survive_kill() {
    let dir = directory("kill");
    run_ok(&["selfplay", "g", "--games", "40", "--nodes", "40", "--workers", "1", "--hash", "1"], &dir);
    let input = "g-0-of-1.vf";
    let label = |out: &'static str| ["label", input, "-o", out, "--nodes", "150", "--hash", "1"];
    run_ok(&label("whole.binpack"), &dir);
    for _ in 0..4 {
        killed(&label("killed.binpack"), &dir, Duration::from_millis(200));
    }
    run_ok(&label("killed.binpack"), &dir);
    let read = |name: &str| std::fs::read(dir.join(name)).unwrap();
    assert_eq!(read("whole.binpack"), read("killed.binpack"));

    for (name, args) in
        [("c.csv", ["convert", input, "-o", "c.csv"]), ("s.bf", ["shuffle", input, "-o", "s.bf"])]
    {
        for pause in [1, 5, 20] {
            killed(&args, &dir, Duration::from_millis(pause));
            // The output is complete or absent.
            if dir.join(name).exists() {
                run_ok(&["count", name], &dir);
                std::fs::remove_file(dir.join(name)).unwrap();
            }
        }
        run_ok(&args, &dir);
    }
    let count = |name: &str| run_ok(&["count", "--json", name], &dir);
    let records =
        |text: String| text.split("\"records\":").nth(1).unwrap().split(',').next().unwrap().to_owned();
    assert_eq!(records(count("c.csv")), records(count(input)));
    assert_eq!(records(count("s.bf")), records(count(input)));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_game_round_trips_through_every_format() {
    let dir = directory("round");
    run_ok(&["selfplay", "g", "--games", "10", "--nodes", "40", "--workers", "1", "--hash", "1"], &dir);
    run_ok(&["convert", "g-0-of-1.vf", "-o", "start.csv"], &dir);
    let mut last = "start.csv".to_string();
    for next in ["a.binpack", "b.vf.zst", "c.pgn", "d.plain.gz", "e.bin", "end.csv"] {
        run_ok(&["convert", &last, "-o", next], &dir);
        last = next.into();
    }
    // Mate scores became numbers on the way.
    let rows = |name: &str| -> Vec<String> {
        let text = std::fs::read_to_string(dir.join(name)).unwrap();
        text.lines()
            .filter(|row| !row.contains('#') && !row.contains(",319") && !row.contains(",-319"))
            .map(Into::into)
            .collect()
    };
    assert_eq!(rows("start.csv"), rows("end.csv"));
    run_ok(&["convert", "start.csv", "-o", "m.tar"], &dir);
    run_ok(&["convert", "m.tar", "-o", "bc.bagz", "--bag", "behavioral-cloning"], &dir);
    run_ok(&["convert", "bc.bagz", "-o", "n.bf", "--fill-result", "draw", "--fill-score", "0"], &dir);
    run_ok(&["convert", "bc.bagz", "-o", "minus.csv", "--fill-result", "draw", "--fill-score", "-50"], &dir);
    let minus = std::fs::read_to_string(dir.join("minus.csv")).unwrap();
    assert!(minus.lines().skip(1).all(|row| row.contains(",-50,")), "{minus}");
    run_ok(&["validate", "m.tar", "bc.bagz", "n.bf"], &dir);
    run_ok(&["stats", "m.tar", "--html", "page.html"], &dir);
    assert!(std::fs::read_to_string(dir.join("page.html")).unwrap().contains("<svg"));
    let printed = run_ok(
        &[
            "split",
            "start.csv",
            "--train",
            "t.binpack",
            "--validation",
            "v.binpack",
            "--test",
            "w.binpack",
            "--validation-fraction",
            "0.3",
            "--test-fraction",
            "0.3",
        ],
        &dir,
    );
    assert!(printed.contains("train:"), "{printed}");
    assert!(files(&dir).contains(&"w.binpack".into()));
    // The last game is truncated.
    let games = std::fs::read(dir.join("g-0-of-1.vf")).unwrap();
    std::fs::write(dir.join("cut.vf"), &games[..games.len() - 3]).unwrap();
    let printed = lab(&["convert", "cut.vf", "-o", "cut.csv", "--on-error", "skip"], &dir).stderr;
    let printed = String::from_utf8(printed).unwrap();
    assert!(printed.contains("1 of them with the rest of a game or of a block"), "{printed}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn errors_are_reported_with_file_record_and_byte() {
    let dir = directory("mistakes");
    std::fs::write(dir.join("x.csv"), "FEN,Evaluation\n4k3/8/8/8/8/8/8/4K3 w - - 0 1,5\nnonsense,7\n")
        .unwrap();
    std::fs::write(dir.join("y.bin"), [0; 57]).unwrap();
    std::fs::write(dir.join("z.csv"), "FEN,Evaluation\n4k3/8/8/8/8/8/8/4K3 w - - 0 1,5\n").unwrap();
    let error = |args: &[&str]| {
        let output = lab(args, &dir);
        assert!(!output.status.success(), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let printed = error(&["convert", "x.csv", "-o", "x.epd"]);
    assert!(printed.contains("x.csv: record 2, byte 47: "), "{printed}");
    assert!(!dir.join("x.epd").exists());
    let printed = error(&["count", "y.bin"]);
    assert!(printed.contains("y.bin: record 1, byte 0: "), "{printed}");
    assert!(error(&["count", "no.csv"]).contains("no.csv"));
    assert!(error(&["count", "x.docx"]).contains("is not a format"));
    assert!(error(&["count", "a@3.bag"]).contains("a-00000-of-00003.bag: this shard is missing"));
    assert!(error(&["count", "--filter", "hello", "x.csv"]).contains("is not a rule"));
    assert!(error(&["convert", "z.csv", "-o", "x.bf"]).contains("record 1 cannot be written"));
    let twice = ["split", "z.csv", "--train", "s.epd", "--validation", "epd:s.epd"];
    assert!(error(&twice).contains("s.epd would be written twice"));
    let share = ["split", "z.csv", "--train", "s.epd", "--validation-fraction", "0.1"];
    assert!(error(&share).contains("--validation <"));
    let output = lab(&["convert", "x.csv", "-o", "x.epd", "--on-error", "skip"], &dir);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && printed.contains("1 broken record was skipped"), "{printed}");
    assert_eq!(files(&dir), ["x.csv", "x.epd", "y.bin", "z.csv"]);
    std::fs::remove_dir_all(dir).unwrap();
}

/// Ten games without result and moves, as positions with evaluations that follow each other, and the same rows
/// with every second one left out.
fn plain_csv(dir: &Path) {
    run_ok(&["selfplay", "g", "--games", "10", "--nodes", "40", "--workers", "1", "--hash", "1"], dir);
    run_ok(&["convert", "g-0-of-1.vf", "-o", "g.csv"], dir);
    let text = std::fs::read_to_string(dir.join("g.csv")).unwrap();
    let rows: Vec<String> = text
        .lines()
        .skip(1)
        .map(|row| {
            let fields: Vec<&str> = row.split(',').collect();
            format!("{},{}\n", fields[0], fields[2])
        })
        .collect();
    std::fs::write(dir.join("plain.csv"), format!("FEN,Evaluation\n{}", rows.concat())).unwrap();
    let sparse: String = rows.iter().step_by(2).map(String::as_str).collect();
    std::fs::write(dir.join("sparse.csv"), format!("FEN,Evaluation\n{sparse}")).unwrap();
}

/// The standard error of a command, with its success.
fn stderr(args: &[&str], dir: &Path) -> (bool, String) {
    let output = lab(args, dir);
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn positions_with_evaluations_alone_become_training_data() {
    let dir = directory("plain");
    plain_csv(&dir);
    let sets = ["--train", "t.bf", "--validation", "v.bf", "--validation-fraction", "0.4"];
    let split = |input: &'static str, more: &[&'static str]| [&["split", input][..], &sets, more].concat();
    // A rule that drops everything is named, with the remedy.
    let (is_ok, error) = stderr(&split("plain.csv", &["--filter", "decided,no-checks"]), &dir);
    assert!(!is_ok && error.contains("no record is left"), "{error}");
    assert!(error.contains("decided dropped") && error.contains("--fill-result draw"), "{error}");
    let (is_ok, error) = stderr(&split("plain.csv", &["--filter", "no-captures"]), &dir);
    assert!(!is_ok && error.contains("have no moves") && error.contains("use quiet"), "{error}");
    let (is_ok, error) = stderr(&split("plain.csv", &[]), &dir);
    assert!(!is_ok && error.contains("--fill-result draw (of"), "{error}");
    assert!(!dir.join("t.bf").exists() && !dir.join("v.bf").exists());

    let fill = ["--fill-result", "draw", "--filter", "quiet,max-score=3000"];
    let output = lab(&split("plain.csv", &fill), &dir);
    let (printed, error) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(output.status.success(), "{error}");
    let games = printed.lines().map(|line| line.split_whitespace().nth(1).unwrap().parse::<u32>().unwrap());
    assert_eq!(games.sum::<u32>(), 10, "{printed}");
    assert!(
        error.contains("the filter rule") && error.contains("a result that the data does not have"),
        "{error}"
    );
    assert!(!error.contains("single positions"), "{error}");

    // Where positions are missing, games cannot be recognised.
    let (is_ok, error) = stderr(&split("sparse.csv", &fill), &dir);
    assert!(is_ok && error.contains("single positions without a move"), "{error}");
    assert!(error.contains("--blocks-of"), "{error}");
    let blocks = [&fill[..], &["--blocks-of", "20"]].concat();
    let (is_ok, error) = stderr(&split("sparse.csv", &blocks), &dir);
    assert!(is_ok && !error.contains("single positions"), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_is_left_out_or_changed_is_counted() {
    let dir = directory("losses");
    let rows = "fen,eval_white,depth,result\n\
        4k3/8/8/8/8/8/4P3/4K2R w K - 0 1,0.423,9,1-0\n\
        4k3/8/8/8/8/8/4P3/4K3 w - - 120 90,900,9,1-0\n\
        4k3/8/8/8/8/8/4P3/4K3 w - - 0 1,#3,9,\n";
    std::fs::write(dir.join("x.csv"), rows).unwrap();
    let (is_ok, error) = stderr(&["convert", "x.csv", "-o", "x.bf", "--fill-result", "draw"], &dir);
    assert!(is_ok, "{error}");
    for expected in [
        "x.csv: 1 column without a place in a record was left out: depth",
        "--fill-result gave 1 record a result that the data does not have",
        "1 score rounded to whole centipawns",
        "1 score beyond ±32000 centipawns clipped",
        "1 half-move clock above 100 set to 100",
        "1 position stored without its castling rights",
        "1 mate score stored as a number",
    ] {
        assert!(error.contains(expected), "{expected} is missing in {error}");
    }
    let (is_ok, error) = stderr(&["convert", "x.csv", "-o", "y.csv", "--filter", "max-pieces=2"], &dir);
    assert!(!is_ok && error.contains("max-pieces dropped 3"), "{error}");
    std::fs::write(dir.join("empty.csv"), "fen,score\n").unwrap();
    for command in ["validate", "stats"] {
        let (is_ok, error) = stderr(&[command, "empty.csv"], &dir);
        assert!(!is_ok && error.contains("there are no records"), "{error}");
    }
    let (is_ok, error) = stderr(&["label", "empty.csv", "-o", "y.csv", "--net", "bootstrap"], &dir);
    assert!(!is_ok && error.contains("no record is left"), "{error}");
    for (command, key) in [("validate", "illegal_moves"), ("stats", "with_score")] {
        let json: serde_json::Value =
            serde_json::from_str(&run_ok(&[command, "x.csv", "--json"], &dir)).unwrap();
        assert!(json["records"] == 3 && json[key].is_u64(), "{json}");
    }
    let (is_ok, error) = stderr(&["shuffle", "empty.csv", "-o", "y.csv"], &dir);
    assert!(!is_ok && error.contains("no records to shuffle"), "{error}");
    assert!(!dir.join("y.csv").exists());
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn an_output_that_is_an_input_is_refused() {
    let dir = directory("same");
    let rows = "fen,score,result,extra\n4k3/8/8/8/8/8/4P3/4K3 w - - 0 1,5,1-0,x\n";
    std::fs::write(dir.join("x.csv"), rows).unwrap();
    for args in [
        &["convert", "x.csv", "-o", "x.csv"][..],
        &["convert", "x.csv", "-o", "./x.csv"],
        &["shuffle", "x.csv", "-o", "x.csv"],
        &["split", "x.csv", "--train", "x.csv"],
        &["label", "x.csv", "-o", "x.csv"],
    ] {
        let (is_ok, error) = stderr(args, &dir);
        assert!(!is_ok && error.contains("x.csv is an input too"), "{args:?}: {error}");
    }
    assert_eq!(std::fs::read_to_string(dir.join("x.csv")).unwrap(), rows);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn records_that_differ_are_shown_in_words() {
    let dir = directory("compare");
    let row =
        |score: i32| format!("fen,move,score,result\n4k3/8/8/8/8/8/4P3/4K3 w - - 0 1,e2e4,{score},1-0\n");
    std::fs::write(dir.join("x.csv"), row(5)).unwrap();
    std::fs::write(dir.join("y.csv"), row(7)).unwrap();
    let (is_ok, error) = stderr(&["compare", "x.csv", "y.csv"], &dir);
    let expected = "x.csv: 4k3/8/8/8/8/8/4P3/4K3 w - - 0 1, move e2e4, score 5 cp, result win, ply 0";
    assert!(!is_ok && error.contains(expected) && !error.contains("Record {"), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_book_of_openings_is_made_for_matches() {
    let dir = directory("openings");
    let args = ["openings", "-o", "book.epd", "--count", "12", "--nodes", "100", "--net", "bootstrap"];
    assert!(run_ok(&args, &dir).contains("book.epd: 12 openings"));
    let book = std::fs::read_to_string(dir.join("book.epd")).unwrap();
    assert_eq!(book.lines().count(), 12);
    run_ok(&args, &dir);
    assert_eq!(std::fs::read_to_string(dir.join("book.epd")).unwrap(), book);
    std::fs::remove_dir_all(dir).unwrap();
}

/// A full disk ends the work with a message, and nothing is left behind. A limit on file sizes stands in for
/// the disk, because writes fail in the same way.
#[test]
#[cfg(unix)]
fn a_full_disk_leaves_nothing() {
    let dir = directory("full");
    let row = "4k3/8/8/8/8/8/8/4K3 w - - 0 1,5\n";
    std::fs::write(dir.join("x.csv"), "FEN,Evaluation\n".to_string() + &row.repeat(200_000)).unwrap();
    for args in ["convert x.csv -o x.epd", "shuffle x.csv -o x.epd"] {
        let line =
            format!("trap '' XFSZ; ulimit -f 16; exec {} data {args}", env!("CARGO_BIN_EXE_tandem-lab"));
        let output = Command::new("sh").args(["-c", &line]).current_dir(&dir).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && printed.contains("File too large"), "{args}: {printed}");
    }
    // Printed output can be lost too.
    #[cfg(target_os = "linux")]
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut head = Command::new(env!("CARGO_BIN_EXE_tandem-lab"));
        let output = head.args(["data", "head", "x.csv"]).current_dir(&dir).stdout(full).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && printed.contains("standard output: "), "{printed}");
    }
    let left = std::fs::read_dir(&dir).unwrap().count();
    assert_eq!(left, 1);
    std::fs::remove_dir_all(dir).unwrap();
}
