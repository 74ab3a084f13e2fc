//! `tandem-lab new`, `inspect`, `export` and `maps` on transformers, as a user meets them. A real network of another kind
//! is refused where it is at hand: set `TANDEM_DATA` to a folder that has it, or put it at `../shared/data` beside the
//! repository.

mod common;

use common::{badly, directory, shared, well};
use std::path::Path;
use tandem_transformer::{Architecture, Preset, Weights};

/// A tiny architecture by its name: `board` is of lc0's kind, `squares` has learned pairs, `moves` reads moves, `text` does
/// not.
fn tiny(name: &str) -> String {
    format!("{}/../crates/transformer/tests/architectures/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

/// The line of a fact.
fn fact<'a>(told: &'a str, name: &str) -> &'a str {
    let line = told.lines().find(|line| line.trim_start().starts_with(name));
    line.unwrap_or_else(|| panic!("no {name} in {told}")).trim()
}

fn load(dir: &Path, name: &str) -> Weights {
    Weights::load(dir.join(name), None).unwrap()
}

#[test]
fn every_file_of_a_network_says_the_same() {
    let dir = directory("transformers-inspect");
    well(&["new", &tiny("board"), "-o", "net.ttn", "--seed", "7"], &dir);
    for name in ["net.safetensors", "net.onnx", "net.pb.gz"] {
        well(&["export", "net.ttn", "-o", name, "--positions", "2"], &dir);
    }
    well(&["export", "net.ttn", "-o", "small.ttn", "--precision", "int8", "--positions", "0"], &dir);
    let text = std::fs::read_to_string(tiny("board")).unwrap();
    let architecture = Architecture::from_toml(&text).unwrap();
    for (name, kind, numbers) in [
        ("net.ttn", "Tandem transformer", "f32"),
        ("small.ttn", "Tandem transformer", "int8 and f32"),
        ("net.safetensors", "transformer in floating point", "f32"),
        ("net.onnx", "ONNX graph", "f32"),
        ("net.pb.gz", "lc0 network", "mostly in 16 bits"),
    ] {
        let told = well(&["inspect", name], &dir);
        assert!(told.starts_with(&format!("{name}: {kind}\n")), "{told}");
        assert_eq!(fact(&told, "parameters"), format!("parameters  {}", architecture.parameters()));
        assert!(fact(&told, "numbers").contains(numbers), "{told}");
        assert_eq!(fact(&told, "attention  "), "attention  smolgen 4/8/6, silu, biases");
        assert!(fact(&told, "heads").contains("search value (5/7, error, 9 buckets)"), "{told}");
        let size = std::fs::metadata(dir.join(name)).unwrap().len();
        assert_eq!(fact(&told, "size"), format!("size  {size} bytes"));
        let toml = well(&["inspect", name, "--toml"], &dir);
        assert_eq!(Architecture::from_toml(&toml).unwrap(), architecture, "{name}");
    }
    let told = well(&["inspect", "net.ttn", "net.safetensors"], &dir);
    assert!(told.matches("random numbers of seed 7").count() == 2, "{told}");
    let start: Vec<&str> = told.lines().filter(|line| line.contains("start position")).collect();
    assert!(start.len() == 2 && start[0] == start[1] && start[0].contains("% to win"), "{told}");

    let told = well(&["inspect", "net.ttn", "--tensors"], &dir);
    for spec in architecture.tensors() {
        let shape: Vec<String> = spec.shape.iter().map(ToString::to_string).collect();
        let row: Vec<&str> = fact(&told, &format!("{} ", spec.name)).split_whitespace().collect();
        assert_eq!((row[1], row[row.len() - 1]), (shape.join("x").as_str(), "%"));
        let [least, most] = [2, 3].map(|column| row[column].parse::<f32>().unwrap());
        assert!(least <= most, "{row:?}");
    }
    let told = well(&["inspect", &tiny("board")], &dir);
    assert_eq!(fact(&told, "parameters"), format!("parameters  {}", architecture.parameters()));
    for preset in Preset::ALL {
        assert_eq!(well(&["inspect", "--preset", preset.name()], &dir), preset.toml());
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_is_no_transformer_is_told_by_what_it_is() {
    let dir = directory("transformers-refused");
    well(&["new", &tiny("moves"), "-o", "net.ttn"], &dir);
    let error = badly(&["inspect", "--preset", "bt5"], &dir);
    assert!(error.contains("searchless-9m"), "{error}");
    let bytes = std::fs::read(dir.join("net.ttn")).unwrap();
    std::fs::write(dir.join("short.ttn"), &bytes[..bytes.len() - 9]).unwrap();
    let error = badly(&["inspect", "short.ttn"], &dir);
    assert!(error.contains("short.ttn: ") && error.contains(" at byte "), "{error}");
    let error = badly(&["verify", "net.ttn"], &dir);
    assert!(error.contains("a Tandem transformer, where an NNUE is wanted"), "{error}");
    std::fs::write(dir.join("text.ttn"), "hello, I am a text of some length").unwrap();
    badly(&["inspect", "text.ttn"], &dir);

    let error = badly(&["new", "bt5", "-o", "x.ttn"], &dir);
    assert!(error.contains("neither a preset (byte, searchless-9m"), "{error}");
    std::fs::write(dir.join("broken.toml"), "input = \"text\"\nlairs = 3\n").unwrap();
    let error = badly(&["new", "broken.toml", "-o", "x.ttn"], &dir);
    assert!(error.contains("broken.toml: ") && error.contains("lairs"), "{error}");
    let error = badly(&["new", "byte", "-o", "x.tnn"], &dir);
    assert!(error.contains("holds NNUEs"), "{error}");
    assert!(!dir.join("x.ttn").exists() && !dir.join("x.tnn").exists());

    if let Some(nnue) = shared("nets/nnue/nn-37f18f62d772.nnue") {
        let error = badly(&["inspect", &nnue, "--toml"], &dir);
        assert!(error.contains("is no transformer"), "{error}");
        let error = badly(&["export", &nnue, "-o", "x.onnx"], &dir);
        assert!(error.contains("is an NNUE"), "{error}");
        badly(&["maps", &nnue, "-o", "x.svg"], &dir);
    }
    if let Some(maia) = shared("nets/lc0/maia-1100.pb.gz") {
        let error = badly(&["inspect", &maia], &dir);
        assert!(error.contains("a residual network with squeeze and excitation"), "{error}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_network_goes_through_every_format_and_comes_back() {
    let dir = directory("transformers-export");
    well(&["new", &tiny("board"), "-o", "net.ttn"], &dir);
    let bytes = |name: &str| std::fs::read(dir.join(name)).unwrap();
    let told = well(&["export", "net.ttn", "-o", "net.safetensors", "--note", "author=someone"], &dir);
    assert!(told.contains("nothing was quantised"), "{told}");
    let card = std::fs::read_to_string(dir.join("net.safetensors.md")).unwrap();
    assert!(
        card.contains("| architecture | planes -> 2 x (smolgen 4/8/6")
            && card.contains("| author | someone |")
    );
    well(&["export", "net.safetensors", "-o", "again.ttn", "--no-card"], &dir);
    assert_eq!(bytes("again.ttn"), bytes("net.ttn"));

    // lc0's numbers are rounded once.
    let told = well(&["export", "net.ttn", "-o", "net.pb.gz", "--positions", "20"], &dir);
    assert!(told.contains("chance to win") && told.contains("same best move: "), "{told}");
    well(&["export", "net.pb.gz", "-o", "back.ttn", "--no-card"], &dir);
    let told = well(&["export", "back.ttn", "-o", "back.pb.gz", "--no-card", "--positions", "5"], &dir);
    assert!(told.contains("nothing was quantised"), "{told}");
    assert_eq!(bytes("back.pb.gz"), bytes("net.pb.gz"));

    // Half as many bits, and a quarter: what it costs is told.
    let mut means = Vec::new();
    for precision in ["bf16", "int8"] {
        let name = format!("{precision}.ttn");
        let args = ["export", "net.ttn", "-o", &name, "--precision", precision, "--positions", "30"];
        let told = well(&args, &dir);
        let row: Vec<&str> = fact(&told, "chance to win").split_whitespace().collect();
        let figure = |place: usize| row[place].parse::<f64>().unwrap();
        assert!(figure(3) > 20.0 && figure(4) >= figure(5) && figure(4) < 0.2, "{told}");
        means.push(figure(5));
        assert_eq!(load(&dir, &name).architecture(), load(&dir, "net.ttn").architecture());
        assert!(bytes(&name).len() < bytes("net.ttn").len());
        let card = std::fs::read_to_string(dir.join(format!("{name}.md"))).unwrap();
        assert!(card.contains(&format!("## {precision} against f32, on ")), "{card}");
        assert_eq!(card.contains("layers.1.feed_forward.out.weight"), precision == "int8", "{card}");
        assert_eq!(told.contains("more, which the card has"), precision == "int8", "{told}");
    }
    assert!(means.iter().all(|mean| *mean > 0.0), "{means:?}");

    std::fs::write(
        dir.join("few.epd"),
        "4k3/8/8/8/8/8/4P3/4K3 w - - id \"one\";\n8/8/8/4k3/8/8/q7/4K3 b - - id \"two\";\n",
    )
    .unwrap();
    let args = ["export", "net.ttn", "-o", "few.ttn", "--precision", "int8", "--data", "few.epd"];
    let told = well(&args, &dir);
    assert!(told.contains("int8 against f32, on 2 positions"), "{told}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_cannot_be_exported_is_refused_and_nothing_is_written() {
    let dir = directory("transformers-unfit");
    well(&["new", &tiny("moves"), "-o", "net.ttn"], &dir);
    well(&["new", &tiny("squares"), "-o", "net.onnx"], &dir);
    let count = std::fs::read_dir(&dir).unwrap().count();
    for (args, word) in [
        (&["net.ttn", "-o", "x.pb.gz"][..], "lc0's format has no place for an input other than 112 planes"),
        (&["net.ttn", "-o", "x.nnue"], "holds NNUEs"),
        (&["net.ttn", "-o", "x.zip"], "say --to FORMAT"),
        (&["net.ttn", "-o", "x.ttn", "--qa", "255"], "are for NNUEs"),
        (&["net.ttn", "-o", "x.safetensors", "--precision", "int8"], "--precision is for our own files"),
        (&["net.onnx", "-o", "x.ttn"], "written and never read"),
        (&["net.ttn", "-o", "x.ttn", "--precision", "int8", "--data", "nowhere.epd"], "nowhere.epd"),
        (&["nowhere.ttn", "-o", "x.ttn"], "nowhere.ttn"),
    ] {
        let error = badly(&[&["export"], args].concat(), &dir);
        assert!(error.contains(word), "{error}");
    }
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), count);
    std::fs::remove_dir_all(dir).unwrap();
}

const FEN: &str = "r1bqkbnr/pppp1ppp/2n5/4p3/4P3/5N2/PPPP1PPP/RNBQKB1R w KQkq - 2 3";

/// A drawing, seen to be one.
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
        well(&[&["maps"], args, &["--fen", FEN, "-o", "map.svg"]].concat(), &dir);
        drawing(&dir.join("map.svg"))
    };
    let boards = |text: &str| text.matches("<title>").count();
    for (name, heads) in [("board", 4), ("squares", 8), ("moves", 4), ("text", 6)] {
        let net = format!("{name}.ttn");
        well(&["new", &tiny(name), "-o", &net], &dir);
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
        assert!(boards(&text) == 1 && text.contains("seen from f3 (outlined)"), "{name}");
        if outputs.action_value.is_some() {
            let text = draw(&[&net, "--from", "move", "--move", "Bb5"]);
            assert!(boards(&text) == heads && text.contains("seen from the move Bb5"), "{name}");
        }
        if matches!(name, "board" | "squares") {
            draw(&[&net, "--show", "pairs", "--from", "e4"]);
        } else {
            assert!(draw(&[&net]).contains("In the last layer only"), "{name}");
        }
    }
    assert!(draw(&["board.ttn", "--show", "smolgen"]).contains(">Smolgen of board.ttn<"));
    assert!(draw(&["squares.ttn", "--show", "bias"]).contains(">The learned bias of squares.ttn<"));
    well(&["maps", "moves.ttn", "-o", "all"], &dir);
    assert_eq!(std::fs::read_dir(dir.join("all")).unwrap().count(), 5);
    drawing(&dir.join("all/overview.svg"));
    drawing(&dir.join("all/layer-1-head-1.svg"));

    for (args, word) in [
        (&["board.ttn", "--layer", "2"][..], "--layer 2: the network has 0 to 1"),
        (&["board.ttn", "--from", "k9"], "no square"),
        (&["board.ttn", "--from", "move"], "reads no move"),
        (&["board.ttn", "--move", "e4"], "reads no move"),
        (&["moves.ttn", "--move", "e5"], "not a legal move"),
        (&["moves.ttn", "--show", "smolgen"], "plain attention"),
        (&["moves.ttn", "--fen", "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"], "no move that the network could read"),
        (&["moves.ttn", "--fen", "nonsense"], "--fen: "),
    ] {
        let error = badly(&[&["maps"], args, &["-o", "no.svg"]].concat(), &dir);
        assert!(error.contains(word), "{error}");
    }
    assert!(!dir.join("no.svg").exists());
    std::fs::remove_dir_all(dir).unwrap();
}

/// A learned table is what is drawn: the square that it names is the one that is looked at.
#[test]
fn maps_show_what_the_network_has() {
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
    let told = |from: &str, fen: &str| {
        well(&[&args[..], &["--from", from, "--fen", fen]].concat(), &dir);
        let drawing = drawing(&dir.join("map.svg"));
        let (_, title) = drawing.split_once("<title>").unwrap();
        title.split_once("</title>").unwrap().0.to_owned()
    };
    assert!(told("e4", FEN).starts_with("Layer 1, head 2: g8 100 %, "));
    let black = FEN.replace(" w ", " b ");
    assert!(told("e5", &black).starts_with("Layer 1, head 2: g1 100 %, "));
    std::fs::remove_dir_all(dir).unwrap();
}
