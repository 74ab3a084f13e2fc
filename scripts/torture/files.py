"""Damages files of all formats and gives them to the lab: data, networks, checkpoints, journals and match states."""

import shutil
import time

from common import end, run, start, tree
from mutate import damage, damage_inside
from work import material, unexpected_files, works

# MiB that a command may need for a small file, whatever the file says.
MOST_MEMORY = 1500
DATA = ["csv", "pgn", "epd", "plain", "bin", "binpack", "bf", "vf", "tar", "bag", "bagz", "csv.gz", "csv.zst", "pgn.gz", "vf.zst"]
# Formats in which a checksum covers every byte.
CHECKSUMMED = (".tnn", ".ttn", ".checkpoint")


def attack(setup, part):
    folder = material(setup, setup.folder / "material")
    samples = [*data_files(setup, part, folder), *networks(setup, part, folder)]
    resumable = [work for work in works(setup, folder) if work.state]
    states = {}
    while part.has_time():
        for _ in range(12):
            if not part.has_time():
                return
            attack_file(setup, part, *setup.random.choice(samples))
        work = setup.random.choice(resumable)
        if part.has_time(3 + states.get(work.name, (5,))[0]):
            attack_state(setup, part, work, states)


def data_files(setup, part, folder):
    """Paths of the same games in every format, with the commands that read them."""
    for extension in DATA:
        path = folder / f"sample.{extension}"
        outcome = run([setup.lab, "data", "convert", folder / "games.vf", "-o", path], folder, timeout=120)
        if outcome.status:
            part.skip(f"{extension}: {outcome.tail()}")
            continue
        yield path, "data", [
            lambda file: ["data", "validate", file],
            lambda file: ["data", "stats", file],
            lambda file: ["data", "convert", file, "-o", "out.csv"],
            lambda file: ["data", "convert", file, "-o", "out.plain", "--on-error", "skip"],
            lambda file: ["data", "shuffle", file, "-o", "out.bf"],
            lambda file: ["data", "split", file, "--train", "out-t.vf", "--validation", "out-v.vf"],
        ]


def networks(setup, part, folder):
    """Paths of small networks in every format, with the commands that read them."""
    commands = [lambda file: ["inspect", file], lambda file: ["export", file, "-o", "out.safetensors", "--no-card"]]
    made = [folder / "squares.ttn"]
    small = next(work for work in works(setup, folder) if work.name == "train an NNUE")
    run_folder = small.new_folder(folder, "nnue")
    if (outcome := small.finish(run_folder, 300)).status:
        part.find("damaged networks", f"no network: {outcome.tail()}")
        return
    made += [run_folder / "run/small.tnn", run_folder / "run/small.safetensors", run_folder / "run/best.checkpoint"]
    for source, target in [("run/small.tnn", "small.nnue"), ("run/small.safetensors", "small.bin")]:
        if run([setup.lab, "export", run_folder / source, "-o", folder / target, "--no-card"], folder).status == 0:
            made.append(folder / target)
    for architecture in ["board", "moves", "text"]:
        source = setup.root / f"crates/transformer/tests/architectures/{architecture}.toml"
        for extension in ["ttn", "safetensors", "onnx", "pb.gz"]:
            target = folder / f"{architecture}.{extension}"
            if run([setup.lab, "new", source, "-o", target], folder, timeout=120).status == 0:
                made.append(target)
    made.append(setup.root / "nets/tandem.hybrid")
    for path in made:
        # A few large networks would take the time of many small ones.
        if path.stat().st_size < 4 << 20:
            yield path, "networks", commands


def attack_file(setup, part, path, kind, commands):
    random, original = setup.random, path.read_bytes()
    inside = damage_inside(random, path.name, original) if random.random() < 0.5 else None
    damaged, how = inside or damage(random, original)
    if damaged == original:
        return
    attack = f"damaged {kind}" + (", checksums repaired" if inside else "")
    place = setup.folder / "case"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    file = setup.folder / f"damaged.{path.name}"
    file.write_bytes(damaged)
    command = random.choice(commands)(file)
    outcome = run([setup.lab, *command], place, timeout=60)
    part.count(attack)
    failure = outcome.failure()
    if failure is None and outcome.peak > MOST_MEMORY:
        failure = f"{outcome.peak} MiB of memory for {len(damaged)} bytes: {outcome.command}"
    # With `--on-error skip`, the output stays although a file could not be read to its end.
    if failure is None and outcome.status and (left := [name for name in tree(place) if "skip" not in command or name.endswith(".part")]):
        failure = f"left behind after an error: {', '.join(sorted(left))}: {outcome.command}"
    if failure is None and outcome.status == 0 and not inside and path.name.endswith(CHECKSUMMED):
        failure = f"accepted silently: {outcome.command}"
    if failure is None and len(outcome.text) > 20_000 and outcome.status:
        failure = f"an error of {len(outcome.text)} bytes: {outcome.command}"
    if failure:
        kept = setup.root / "target" / f"torture-{part.amounts[attack]}-{path.name}"
        kept.parent.mkdir(exist_ok=True)
        shutil.copy(file, kept)
        part.find(attack, f"{how}: {failure} (file kept as {kept})")


def attack_state(setup, part, work, states):
    """Damages the files from which interrupted work resumes. It must end with the uninterrupted result or with an
    error, never with another result."""
    attack = f"damaged state: {work.name}"
    if work.name not in states:
        whole = work.new_folder(setup.folder, "whole")
        outcome = work.finish(whole, 300)
        if outcome.status:
            part.find(attack, f"fails without damage: {outcome.tail()}")
        part_done = None if outcome.status else interrupted(setup, work, outcome.seconds)
        states[work.name] = (outcome.seconds, work.result(whole), part_done, tree(whole))
    _, expected, part_done, files = states[work.name]
    if part_done is None:
        return
    place = setup.folder / "state"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(part_done, place)
    candidates = work.state_files(place)
    file = setup.random.choice(candidates[-2:] if ".checkpoint" in candidates[-1].name else candidates)
    original = file.read_bytes()
    damaged, how = (b"", "emptied") if setup.random.random() < 0.1 else damage(setup.random, original)
    file.write_bytes(damaged)
    outcome = work.finish(place, 300)
    part.count(attack)
    case = f"{file.name}, {how} ({len(original)} to {len(damaged)} bytes)"
    if failure := outcome.failure():
        part.find(attack, f"{case}: {failure}")
    elif outcome.status == 0 and work.result(place) != expected:
        part.find(attack, f"{case}: accepted, and the result differs: {outcome.tail()}")
    elif outcome.status == 0 and (left := unexpected_files(place, files)):
        part.find(attack, f"{case}: left behind: {', '.join(left)}")


def interrupted(setup, work, seconds):
    """Folder of a command that was killed when it had something to resume from; None if that fails."""
    for attempt in range(6):
        folder = work.new_folder(setup.folder, "half")
        with open("/dev/null", "wb") as nothing:
            process = start(work.command(folder), folder, nothing)
            deadline = time.monotonic() + seconds * (0.4 + 0.08 * attempt)
            while process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            was_running = process.poll() is None
            end(process)
        if was_running and work.state_files(folder):
            return folder
    return None
