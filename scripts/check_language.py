#!/usr/bin/env python3
"""Checks the words of the repository: code, comments, documentation, scripts and recipes.

    scripts/check_language.py [PATH...]     list what breaks a rule (all tracked files by default); exit status 1 if anything does
    scripts/check_language.py --report      counts: words, doc items, their length, tables, long lines
    scripts/check_language.py --self-test   plant one case of each kind and see that it is found

The rules, and the words to use instead, are in docs/glossary.md. The standard library is enough, and a run takes seconds.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Private words and the field's. Each is looked for among the parts of identifiers (`clip_slopes`, `StepTold`) and in prose.
WORDS = {
    "slope": "gradient", "slopes": "gradients",
    "card": "GPU, device", "cards": "GPUs, devices",
    "told": "reported, metrics", "untold": "pending",
    "said": "output, reported",
    "judge": "evaluate, forward, predict", "judges": "evaluates", "judged": "evaluated",
    "judging": "evaluating", "judgement": "evaluation, prediction", "judgements": "evaluations", "judgment": "evaluation",
    "surprise": "cross-entropy", "surprises": "cross-entropies",
    "bent": "activated", "bend": "activation, Huber delta", "bends": "activations", "bending": "activation",
    "readings": "epochs, samples",
    "chance": "win probability, random", "chances": "probabilities",
    "counsel": "strategist client, query", "counselled": "blended",
    "opinion": "evaluation", "opinions": "evaluations",
    "adviser": "policy player", "advisers": "policy players",
    "onlooker": "accumulator reader", "occasion": "query context", "discord": "positional gap",
    "nobody": "no one (or name the thing)", "whoever": "name the thing",
}
PHRASES = {
    r"\bso (?:many|much)\b(?! (?:that|as|more|less|faster|slower|the))": "name the quantity",
    r"\bas told\b": "as reported, as given",
    r"\b(?:one|each|every|a|per) looks?\b(?! (?:up|at))": "a forward pass, an inference",
}
# `card` also is Hugging Face's word for the page that describes a network.
INNOCENT = [
    re.compile(r"(?:model|network)[ _-]?cards?(?![a-z])", re.I),
    re.compile(r"--no-card\b"), re.compile(r"\bno_card\b"),
    re.compile(r"\bwild-?cards?\b", re.I),
]
# Old names that must go on working stand in the first two; the others explain the words.
ALLOWED = {
    "crates/train/src/old_keys.rs", "engine/src/old_options.rs",
    "docs/glossary.md", "scripts/check_language.py",
}
# A line that ends so names an old key or option in a test or a table, on purpose.
ALLOWED_LINE = re.compile(r"language: old name")

SUFFIXES = {".rs", ".cu", ".cuh", ".cpp", ".c", ".h", ".hpp", ".py", ".sh", ".toml", ".md"}
NAMES = {"run", "Makefile", "CMakeLists.txt"}
QUESTION = re.compile(r"(?:What|How|Whether|Who|Whose|Whoever|Whatever|Why|Which|Where|Wherever)\b(?! (?:possible|needed|applicable)\b)")
# Words that say nothing by themselves.
EMPTY = set(
    "a an the its it this that these those of and or for to in on at by with from as is are be one no not any all same "
    "yes which what who why how where whether there here first last none nothing less more other another".split()
)
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[a-z]+")
DOC = re.compile(r"^\s*(///|//!)(?!/) ?(.*)$")


def parts(text):
    """The parts of all identifiers and words of a text, in lower case."""
    return [part.lower() for part in PART.findall(text)]


def words_of(text):
    """The words of a doc item, without code blocks and marks."""
    text = re.sub(r"```.*?```", " ", text, flags=re.S)
    return re.findall(r"[A-Za-z0-9_'’:.\-]*[A-Za-z0-9_]", text)


def doc_items(lines):
    """Doc comments of Rust: first line (from 1), text, and the line of code that follows."""
    at = 0
    while at < len(lines):
        match = DOC.match(lines[at])
        if not match:
            at += 1
            continue
        mark, start, text = match[1], at, []
        while at < len(lines) and (match := DOC.match(lines[at])) and match[1] == mark:
            text.append(match[2])
            at += 1
        code = at
        while code < len(lines) and lines[code].lstrip().startswith("#["):
            code += 1
        yield start + 1, "\n".join(text), (lines[code] if mark == "///" and code < len(lines) else "")


def is_question(text):
    return bool(QUESTION.match(text)) and not text.split("\n\n")[0].rstrip().endswith("?")


def name_of(code):
    """The name that a line of code declares."""
    match = re.match(r"\s*(?:pub(?:\([^)]*\))?\s+)?(?:const\s+|unsafe\s+|async\s+|extern\s+\"C\"\s+)*"
                     r"(?:fn|struct|enum|trait|type|const|static|mod|macro_rules!)?\s*(\w+)", code)
    return match[1] if match else ""


def is_empty(text, code):
    """Whether a doc item says no more than the name below it."""
    content = [word for word in parts(" ".join(words_of(text))) if word not in EMPTY]
    if not content:
        return True
    name = set(parts(name_of(code)))
    stem = lambda word: re.sub(r"(?:ies|es|s|ed|ing|y|e)$", "", word)
    return bool(name) and "\n" not in text.strip() and all(stem(word) in {stem(part) for part in name} for word in content)


def check_words(path, lines):
    for number, line in enumerate(lines, 1):
        if ALLOWED_LINE.search(line):
            continue
        for innocent in INNOCENT:
            line = innocent.sub(" ", line)
        found = {part for part in parts(line) if part in WORDS}
        for word in sorted(found):
            yield path, number, f"`{word}`: the field says {WORDS[word]}"
        for phrase, instead in PHRASES.items():
            if match := re.search(phrase, line, re.I):
                yield path, number, f"`{match[0]}`: {instead}"
    for word in sorted({part for part in parts(str(path)) if part in WORDS} - ({"card"} if "model_card" in str(path) else set())):
        yield path, 0, f"`{word}` in the file's name: the field says {WORDS[word]}"


def check_docs(path, lines):
    for number, text, code in doc_items(lines):
        if is_question(text):
            yield path, number, f"a doc comment that begins as an embedded question: {text.splitlines()[0][:60]}"
        if is_empty(text, code):
            yield path, number, f"a doc comment that says nothing: {text.strip()[:60]}"


def check_markdown(path, lines):
    fenced = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if fenced:
            continue
        is_table = line.lstrip().startswith("|")
        follows = lines[number] if number < len(lines) else ""
        if is_table and re.fullmatch(r"\s*\|(?:\s*:?-+:?\s*\|)+\s*", follows):
            if any(not cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))) or re.search(r"\|\s*\|", line):
                yield path, number, "a table with an empty header cell"
        if len(line) > 120 and not is_table and not re.fullmatch(r"\s*(?:[-*] )?\S*(?:https?://|\]\()\S*", line):
            yield path, number, f"a line of {len(line)} characters, 120 allowed"


def check(path, text):
    lines = text.splitlines()
    if str(path) not in ALLOWED:
        yield from check_words(path, lines)
    if path.suffix == ".rs":
        yield from check_docs(path, lines)
    if path.suffix == ".md":
        yield from check_markdown(path, lines)


def tracked(paths):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", *paths], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in sorted(set(listed.stdout.splitlines())):
        path = Path(name)
        if (path.suffix in SUFFIXES or path.name in NAMES) and (ROOT / path).is_file():
            yield path, (ROOT / path).read_text(encoding="utf-8", errors="replace")


def report(files):
    items = [(text, code) for path, source in files if path.suffix == ".rs" for _, text, code in doc_items(source.splitlines())]
    length = [len(words_of(text)) for text, _ in items]
    found = [message for path, text in files for _, _, message in check(path, text)]
    count = lambda start: sum(message.startswith(start) for message in found)
    questions = count("a doc comment that begins")
    rows = [
        ("private words, lines", sum(message.startswith("`") for message in found)),
        ("doc items", len(items)),
        ("mean words of a doc item", f"{sum(length) / max(1, len(length)):.1f}"),
        ("embedded questions", f"{questions} ({100 * questions / max(1, len(items)):.1f} %)"),
        ("doc items that say nothing", count("a doc comment that says nothing")),
        ("tables with an empty header cell", count("a table")),
        ("Markdown lines over 120 characters", count("a line of")),
    ]
    for name, value in rows:
        print(f"{name:36} {value}")


PLANTED = [
    ("a.rs", "let clip_slopes = 1;\n", "`slopes`"),
    ("a.rs", "struct StepTold;\n", "`told`"),
    ("a.rs", "// Waits for the card.\n", "`card`"),
    ("a.rs", 'print("nobody knows");\n', "`nobody`"),
    ("a.cu", "float slope = 0;\n", "`slope`"),
    ("a.cpp", "// one look of the network\n", "`one look`"),
    ("a.py", "surprise = loss\n", "`surprise`"),
    ("a.sh", "# The card's memory.\n", "`card`"),
    ("recipes/a.toml", "clip_slopes = 1\n", "`slopes`"),
    ("a.md", "Positions after so many steps.\n", "`so many`"),
    ("judge.rs", "\n", "`judge` in the file's name"),
    ("a.rs", "/// What the network returns.\nfn output() {}\n", "a doc comment that begins"),
    ("a.rs", "//! Whether a position is quiet.\n", "a doc comment that begins"),
    ("a.rs", "/// Why.\nwhy: Reason,\n", "a doc comment that says nothing"),
    ("a.rs", "/// The file.\n#[serde(default)]\npub file: PathBuf,\n", "a doc comment that says nothing"),
    ("a.md", "|  | Elo |\n|---|---:|\n| a | 1 |\n", "a table with an empty header cell"),
    ("a.md", "| net | |\n|---|---|\n| a | 1 |\n", "a table with an empty header cell"),
    ("a.md", "word " * 25 + "\n", "a line of 12"),
]
SOUND = [
    ("a.rs", "/// Gradient norm before clipping; 0 disables clipping.\npub max_grad_norm: f32,\n"),
    ("a.rs", "/// Writes the model card beside the network.\nfn write_model_card() {}\n"),
    ("a.rs", "let discarded = discard(wildcard);\n"),
    ("a.md", "| network | Elo |\n|---|---:|\n| a | 1 |\n"),
]


def self_test():
    for name, text, expected in PLANTED:
        found = [message for _, _, message in check(Path(name), text)]
        if not any(message.startswith(expected) for message in found):
            sys.exit(f"{name}: {text!r} should give «{expected}», gives {found}")
    for name, text in SOUND:
        if found := [message for _, _, message in check(Path(name), text)]:
            sys.exit(f"{name}: {text!r} is sound, but gives {found}")
    print(f"{len(PLANTED)} planted cases found, {len(SOUND)} sound ones passed")


def main():
    options = [argument for argument in sys.argv[1:] if argument.startswith("--")]
    if "--self-test" in options:
        return self_test()
    files = list(tracked([argument for argument in sys.argv[1:] if not argument.startswith("--")]))
    if "--report" in options:
        return report(files)
    found = [finding for path, text in files for finding in check(path, text)]
    for path, number, message in found:
        print(f"{path}:{number}: {message}")
    if found:
        sys.exit(f"{len(found)} places to rewrite; docs/glossary.md has the words to use")
    print(f"{len(files)} files read as they should")


if __name__ == "__main__":
    main()
