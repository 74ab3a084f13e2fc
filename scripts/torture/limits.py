"""Full disks, limited file sizes and little memory: an error message, no damage to what was there, nothing left over."""

import subprocess

from common import run, tree
from work import material, works


def attack(setup, part):
    folder = material(setup, setup.folder / "material")
    pending = works(setup, folder)
    disk = small_disk(setup, part)
    try:
        while part.has_time():
            for work in setup.random.sample(pending, len(pending)):
                if not part.has_time(1):
                    break
                if disk:
                    attack_full_disk(setup, part, work, disk)
                attack_file_size(setup, part, work)
                attack_memory(setup, part, work)
            attack_output(setup, part, folder)
    finally:
        if disk:
            subprocess.run(["umount", disk], check=False)


def small_disk(setup, part):
    """A file system of a few hundred KiB, or None without the right to mount one."""
    disk = setup.folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        part.skip("full disks (mounting needs root)")
        return None
    return disk


def empty(folder):
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def check(part, attack, work, outcome, place, before):
    """An error must have a message, and leave no temporary file."""
    part.count(attack)
    failure = outcome.failure(may_abort_for_memory=attack == "little memory")
    left = [name for name in tree(place) - before if name.endswith(".part") and "out-" not in name or name.endswith(".link")]
    if failure:
        part.find(attack, f"{work.name}: {failure}")
    elif outcome.status and left and "memory allocation" not in outcome.text:
        part.find(attack, f"{work.name}: left behind: {', '.join(left)}")


def attack_full_disk(setup, part, work, disk):
    empty(disk)
    with open(disk / "filler", "wb", buffering=0) as filler:
        try:
            filler.write(bytes(setup.random.choice([0, 150_000, 250_000, 400_000])))
        except OSError:
            pass
    check(part, "full disk", work, work.finish(disk, 120), disk, set())


def attack_file_size(setup, part, work):
    place = work.new_folder(setup.folder, "size")
    size = setup.random.choice([0, 100, 4096, 20_000, 100_000])
    outcome = run(work.command(place), place, timeout=120, file_size=size)
    check(part, "limited file size", work, outcome, place, set())


def attack_memory(setup, part, work):
    place = work.new_folder(setup.folder, "memory")
    memory = setup.random.choice([60, 100, 200, 400, 1000]) << 20
    outcome = run(work.command(place), place, timeout=120, memory=memory)
    check(part, "little memory", work, outcome, place, set())


def attack_output(setup, part, folder):
    """Standard output on a full disk is an error."""
    with open("/dev/full", "wb") as full:
        outcome = run([setup.lab, "data", "head", folder / "games.vf"], folder, stdout=full)
    part.count("full standard output")
    if failure := outcome.failure():
        part.find("full standard output", failure)
    elif outcome.status == 0:
        part.find("full standard output", f"exit 0: {outcome.command}")
