//! `tandem-lab new`, `inspect`, `export` and `maps` on transformers, as a user runs them. Real networks of
//! other kinds are rejected.

mod common;

use common::{data, directory, run_err, run_ok};
use std::path::Path;
use tandem_transformer::{Architecture, Preset, Weights};

/// The path of a tiny architecture: `board` is of lc0's kind, `squares` has learned pair biases, `moves`
/// reads moves, `text` does not.
fn tiny(name: &str) -> String {
    format!("{}/../crates/transformer/tests/architectures/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

/// The line of a property.
fn fact<'a>(printed: &'a str, name: &str) -> &'a str {
    let line = printed.lines().find(|line| line.trim_start().starts_with(name));
    line.unwrap_or_else(|| panic!("no {name} in {printed}")).trim()
}

fn load(dir: &Path, name: &str) -> Weights {
    Weights::load(dir.join(name), None).unwrap()
}

#[test]
fn every_format_of_a_network_is_inspected_alike() {
    let dir = directory("transformers-inspect");
    run_ok(&["new", &tiny("board"), "-o", "net.ttn", "--seed", "7"], &dir);
    for name in ["net.safetensors", "net.onnx", "net.pb.gz"] {
        run_ok(&["export", "net.ttn", "-o", name, "--positions", "2"], &dir);
    }
    run_ok(&["export", "net.ttn", "-o", "small.ttn", "--precision", "int8", "--positions", "0"], &dir);
    let text = std::fs::read_to_string(tiny("board")).unwrap();
    let architecture = Architecture::from_toml(&text).unwrap();
    for (name, kind, precision) in [
        ("net.ttn", "Tandem transformer", "f32"),
        ("small.ttn", "Tandem transformer", "int8 and f32"),
        ("net.safetensors", "transformer in floating point", "f32"),
        ("net.onnx", "ONNX graph", "f32"),
        ("net.pb.gz", "lc0 network", "mostly in 16 bits"),
    ] {
        let printed = run_ok(&["inspect", name], &dir);
        assert!(printed.starts_with(&format!("{name}: {kind}\n")), "{printed}");
        assert_eq!(fact(&printed, "parameters"), format!("parameters  {}", architecture.parameters()));
        assert!(fact(&printed, "precision").contains(precision), "{printed}");
        assert_eq!(fact(&printed, "attention  "), "attention  smolgen 4/8/6, silu, biases");
        assert!(fact(&printed, "heads").contains("search value (5/7, error, 9 buckets)"), "{printed}");
        let size = std::fs::metadata(dir.join(name)).unwrap().len();
        assert_eq!(fact(&printed, "size"), format!("size  {size} bytes"));
        let toml = run_ok(&["inspect", name, "--toml"], &dir);
        assert_eq!(Architecture::from_toml(&toml).unwrap(), architecture, "{name}");
    }
    let printed = run_ok(&["inspect", "net.ttn", "net.safetensors"], &dir);
    assert!(printed.matches("random weights of seed 7").count() == 2, "{printed}");
    let start: Vec<&str> = printed.lines().filter(|line| line.contains("start position")).collect();
    assert!(start.len() == 2 && start[0] == start[1] && start[0].contains("% to win"), "{printed}");

    let printed = run_ok(&["inspect", "net.ttn", "--tensors"], &dir);
    for spec in architecture.tensors() {
        let shape: Vec<String> = spec.shape.iter().map(ToString::to_string).collect();
        let row: Vec<&str> = fact(&printed, &format!("{} ", spec.name)).split_whitespace().collect();
        assert_eq!((row[1], row[row.len() - 1]), (shape.join("x").as_str(), "%"));
        let [least, most] = [2, 3].map(|column| row[column].parse::<f32>().unwrap());
        assert!(least <= most, "{row:?}");
    }
    let printed = run_ok(&["inspect", &tiny("board")], &dir);
    assert_eq!(fact(&printed, "parameters"), format!("parameters  {}", architecture.parameters()));
    for preset in Preset::ALL {
        assert_eq!(run_ok(&["inspect", "--preset", preset.name()], &dir), preset.toml());
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn files_that_are_not_transformers_are_reported_with_their_kind() {
    let dir = directory("transformers-refused");
    run_ok(&["new", &tiny("moves"), "-o", "net.ttn"], &dir);
    let error = run_err(&["inspect", "--preset", "bt5"], &dir);
    assert!(error.contains("searchless-9m"), "{error}");
    let bytes = std::fs::read(dir.join("net.ttn")).unwrap();
    std::fs::write(dir.join("short.ttn"), &bytes[..bytes.len() - 9]).unwrap();
    let error = run_err(&["inspect", "short.ttn"], &dir);
    assert!(error.contains("short.ttn: ") && error.contains(" at byte "), "{error}");
    let error = run_err(&["verify", "net.ttn"], &dir);
    assert!(error.contains("a Tandem transformer, but an NNUE is needed"), "{error}");
    std::fs::write(dir.join("text.ttn"), "hello, I am a text of some length").unwrap();
    run_err(&["inspect", "text.ttn"], &dir);

    let error = run_err(&["new", "bt5", "-o", "x.ttn"], &dir);
    assert!(error.contains("neither a preset (byte, searchless-9m"), "{error}");
    std::fs::write(dir.join("broken.toml"), "input = \"text\"\nlairs = 3\n").unwrap();
    let error = run_err(&["new", "broken.toml", "-o", "x.ttn"], &dir);
    assert!(error.contains("broken.toml: ") && error.contains("lairs"), "{error}");
    let error = run_err(&["new", "byte", "-o", "x.tnn"], &dir);
    assert!(error.contains("holds NNUEs"), "{error}");
    assert!(!dir.join("x.ttn").exists() && !dir.join("x.tnn").exists());
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn maps_are_drawn_as_svg_alone() {
    let dir = directory("transformers-png");
    run_ok(&["new", &tiny("board"), "-o", "net.ttn"], &dir);
    let error = run_err(&["maps", "net.ttn", "-o", "pic.png"], &dir);
    assert!(error.contains("name it pic.svg, or a folder") && !dir.join("pic.png").exists(), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
#[ignore = "needs data"]
fn networks_that_are_not_transformers_are_rejected() {
    let dir = directory("transformers-others");
    let nnue = data("nets/nnue/nn-37f18f62d772.nnue");
    let error = run_err(&["inspect", &nnue, "--toml"], &dir);
    assert!(error.contains("is not a transformer"), "{error}");
    let error = run_err(&["export", &nnue, "-o", "x.onnx"], &dir);
    assert!(error.contains("is an NNUE"), "{error}");
    run_err(&["maps", &nnue, "-o", "x.svg"], &dir);
    let error = run_err(&["inspect", &data("nets/lc0/maia-1100.pb.gz")], &dir);
    assert!(error.contains("a residual network with squeeze and excitation"), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_network_round_trips_through_every_format() {
    let dir = directory("transformers-export");
    run_ok(&["new", &tiny("board"), "-o", "net.ttn"], &dir);
    let bytes = |name: &str| std::fs::read(dir.join(name)).unwrap();
    let printed = run_ok(&["export", "net.ttn", "-o", "net.safetensors", "--note", "author=someone"], &dir);
    assert!(printed.contains("nothing was quantised"), "{printed}");
    let model_card = std::fs::read_to_string(dir.join("net.safetensors.md")).unwrap();
    assert!(
        model_card.contains("| architecture | planes -> 2 x (smolgen 4/8/6")
            && model_card.contains("| author | someone |")
    );
    run_ok(&["export", "net.safetensors", "-o", "again.ttn", "--no-card"], &dir);
    assert_eq!(bytes("again.ttn"), bytes("net.ttn"));

    // lc0's weights are rounded only once.
    let printed = run_ok(&["export", "net.ttn", "-o", "net.pb.gz", "--positions", "20"], &dir);
    assert!(printed.contains("win probability") && printed.contains("same best move: "), "{printed}");
    run_ok(&["export", "net.pb.gz", "-o", "back.ttn", "--no-card"], &dir);
    let printed = run_ok(&["export", "back.ttn", "-o", "back.pb.gz", "--no-card", "--positions", "5"], &dir);
    assert!(printed.contains("nothing was quantised"), "{printed}");
    assert_eq!(bytes("back.pb.gz"), bytes("net.pb.gz"));

    // With half the bits, and with a quarter, the error is reported.
    let mut means = Vec::new();
    for precision in ["bf16", "int8"] {
        let name = format!("{precision}.ttn");
        let args = ["export", "net.ttn", "-o", &name, "--precision", precision, "--positions", "30"];
        let printed = run_ok(&args, &dir);
        let row: Vec<&str> = fact(&printed, "win probability").split_whitespace().collect();
        let column = |index: usize| row[index].parse::<f64>().unwrap();
        assert!(column(2) > 20.0 && column(3) >= column(4) && column(3) < 0.2, "{printed}");
        means.push(column(4));
        assert_eq!(load(&dir, &name).architecture(), load(&dir, "net.ttn").architecture());
        assert!(bytes(&name).len() < bytes("net.ttn").len());
        let model_card = std::fs::read_to_string(dir.join(format!("{name}.md"))).unwrap();
        assert!(model_card.contains(&format!("## {precision} against f32, on ")), "{model_card}");
        assert_eq!(
            model_card.contains("layers.1.feed_forward.out.weight"),
            precision == "int8",
            "{model_card}"
        );
        assert_eq!(printed.contains("more, listed in the model card"), precision == "int8", "{printed}");
    }
    assert!(means.iter().all(|mean| *mean > 0.0), "{means:?}");

    std::fs::write(
        dir.join("few.epd"),
        "4k3/8/8/8/8/8/4P3/4K3 w - - id \"one\";\n8/8/8/4k3/8/8/q7/4K3 b - - id \"two\";\n",
    )
    .unwrap();
    let args = ["export", "net.ttn", "-o", "few.ttn", "--precision", "int8", "--data", "few.epd"];
    let printed = run_ok(&args, &dir);
    assert!(printed.contains("int8 against f32, on 2 positions"), "{printed}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn exports_a_format_cannot_hold_fail_and_write_nothing() {
    let dir = directory("transformers-unfit");
    run_ok(&["new", &tiny("moves"), "-o", "net.ttn"], &dir);
    run_ok(&["new", &tiny("squares"), "-o", "net.onnx"], &dir);
    let count = std::fs::read_dir(&dir).unwrap().count();
    for (args, word) in [
        (&["net.ttn", "-o", "x.pb.gz"][..], "lc0's format does not support an input other than 112 planes"),
        (&["net.ttn", "-o", "x.nnue"], "holds NNUEs"),
        (&["net.ttn", "-o", "x.zip"], "give --to FORMAT"),
        (&["net.ttn", "-o", "x.ttn", "--qa", "255"], "are for NNUEs"),
        (&["net.ttn", "-o", "x.safetensors", "--precision", "int8"], "--precision is for our own files"),
        (&["net.onnx", "-o", "x.ttn"], "written and never read"),
        (&["net.ttn", "-o", "x.ttn", "--precision", "int8", "--data", "nowhere.epd"], "nowhere.epd"),
        (&["nowhere.ttn", "-o", "x.ttn"], "nowhere.ttn"),
    ] {
        let error = run_err(&[&["export"], args].concat(), &dir);
        assert!(error.contains(word), "{error}");
    }
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), count);
    std::fs::remove_dir_all(dir).unwrap();
}

const FEN: &str = "r1bqkbnr/pppp1ppp/2n5/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R w KQkq - 2 3";

/// Reads a drawing and checks that it is well-formed SVG.
fn drawing(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.starts_with("<svg xmlns") && text.ends_with("</svg>\n"));
    assert!(!text.contains("NaN") && !text.contains("inf"));
    for tag in ["g", "text", "title", "svg", "defs"] {
        let opened = text.matches(&format!("<{tag}>")).count() + text.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, text.matches(&format!("</{tag}>")).count(), "{tag} in {}", path.display());
    }
    text
}

#[test]
fn heads_are_drawn_alone_and_together() {
    let dir = directory("transformers-maps");
    let draw = |args: &[&str]| {
        run_ok(&[&["maps"], args, &["--fen", FEN, "-o", "map.svg"]].concat(), &dir);
        drawing(&dir.join("map.svg"))
    };
    let boards = |text: &str| text.matches("<title>").count();
    for (name, heads) in [("board", 4), ("squares", 8), ("moves", 4), ("text", 6)] {
        let net = format!("{name}.ttn");
        run_ok(&["new", &tiny(name), "-o", &net], &dir);
        let Architecture { body, heads: outputs, .. } = load(&dir, &net).architecture().clone();
        let text = draw(&[&net]);
        assert_eq!((boards(&text), body.layers * body.heads), (heads, heads), "{name}");
        assert!(text.contains(FEN) && text.contains(&format!(">Attention of {net}<")));
        let text = draw(&[&net, "--layer", "0"]);
        assert_eq!(boards(&text), body.heads, "{name}");
        // All squares of one head, or one of them.
        let text = draw(&[&net, "--layer", "0", "--head", "1"]);
        assert_eq!(boards(&text), 64, "{name}");
        let text = draw(&[&net, "--layer", "0", "--head", "1", "--from", "f3"]);
        assert!(boards(&text) == 1 && text.contains("from f3 (outlined)"), "{name}");
        if outputs.action_value.is_some() {
            let text = draw(&[&net, "--from", "move", "--move", "Bb5"]);
            assert!(boards(&text) == heads && text.contains("from the move Bb5"), "{name}");
        }
        if matches!(name, "board" | "squares") {
            draw(&[&net, "--show", "pairs", "--from", "e4"]);
        } else {
            assert!(draw(&[&net]).contains("In the last layer, only"), "{name}");
        }
    }
    assert!(draw(&["board.ttn", "--show", "smolgen"]).contains(">Smolgen of board.ttn<"));
    assert!(draw(&["squares.ttn", "--show", "bias"]).contains(">The learned bias of squares.ttn<"));
    run_ok(&["maps", "moves.ttn", "-o", "all"], &dir);
    assert_eq!(std::fs::read_dir(dir.join("all")).unwrap().count(), 5);
    drawing(&dir.join("all/overview.svg"));
    drawing(&dir.join("all/layer-1-head-1.svg"));

    for (args, word) in [
        (&["board.ttn", "--layer", "2"][..], "--layer 2: the network has 0 to 1"),
        (&["board.ttn", "--from", "k9"], "not a square"),
        (&["board.ttn", "--from", "move"], "does not read a move"),
        (&["board.ttn", "--move", "e4"], "does not read a move"),
        (&["moves.ttn", "--move", "e5"], "not a legal move"),
        (&["moves.ttn", "--show", "smolgen"], "plain attention"),
        (
            &["moves.ttn", "--fen", "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"],
            "no legal move that the network can read",
        ),
        (&["moves.ttn", "--fen", "nonsense"], "--fen: "),
    ] {
        let error = run_err(&[&["maps"], args, &["-o", "no.svg"]].concat(), &dir);
        assert!(error.contains(word), "{error}");
    }
    assert!(!dir.join("no.svg").exists());
    std::fs::remove_dir_all(dir).unwrap();
}

/// The map shows a learned table of pair biases: the square with the large entry is the one that gets the
/// attention.
#[test]
fn maps_show_the_learned_bias_of_the_network() {
    let dir = directory("transformers-truth");
    let text = std::fs::read_to_string(tiny("squares")).unwrap();
    let mut weights = Weights::random(Architecture::from_toml(&text).unwrap(), 1);
    let pairs = weights.get_mut("layers.1.attention.pairs").unwrap();
    pairs.fill(0.0);
    // Head 2: from e4 to g8, as White sees the board; for Black that is from e5 to g1.
    pairs[(2 * 64 + 28) * 64 + 62] = 90.0;
    let bytes = weights.to_bytes(tandem_transformer::Storage::F32, "");
    std::fs::write(dir.join("net.ttn"), bytes).unwrap();
    let args = ["maps", "net.ttn", "--layer", "1", "--head", "2", "-o", "map.svg"];
    let printed = |from: &str, fen: &str| {
        run_ok(&[&args[..], &["--from", from, "--fen", fen]].concat(), &dir);
        let drawing = drawing(&dir.join("map.svg"));
        let (_, title) = drawing.split_once("<title>").unwrap();
        title.split_once("</title>").unwrap().0.to_owned()
    };
    assert!(printed("e4", FEN).starts_with("Layer 1, head 2: g8 100 %, "));
    let black = FEN.replace(" w ", " b ");
    assert!(printed("e5", &black).starts_with("Layer 1, head 2: g1 100 %, "));
    std::fs::remove_dir_all(dir).unwrap();
}
