"""Kills every writing command at random moments, resumes it, and compares with the uninterrupted result."""

from common import tree
from work import material, unexpected_files, works


def attack(setup, part):
    folder = material(setup, setup.folder / "material")
    pending = works(setup, folder)
    if not any(work.name == "train a transformer" for work in pending):
        part.skip("training a transformer (this lab is built without libtorch)")
    setup.random.shuffle(pending)
    known = {}
    while part.has_time():
        for work in pending:
            if not part.has_time(2):
                break
            attack_work(setup, part, work, known)
    for work in pending:
        part.count(f"killed: {work.name}", 0)


def attack_work(setup, part, work, known):
    attack = f"killed: {work.name}"
    if work.name not in known:
        whole = work.new_folder(setup.folder, "whole")
        outcome = work.finish(whole, 600)
        if outcome.failure() or outcome.status:
            part.find(attack, f"fails without a kill: {outcome.failure() or outcome.tail()}")
            known[work.name] = None
            return
        known[work.name] = (outcome.seconds, work.result(whole), tree(whole))
    if known[work.name] is None:
        return
    seconds, expected, files = known[work.name]
    folder = work.new_folder(setup.folder, "killed")
    for _ in range(setup.random.randint(1, 6)):
        if not part.has_time(seconds) and part.amounts[attack]:
            return
        # Early moments are more likely, because each start begins where the last one ended.
        was_running = work.interrupt(folder, seconds * setup.random.random() ** 1.5)
        part.count(attack, int(was_running))
        if not was_running:
            break
    outcome = work.finish(folder, 600)
    failure = outcome.failure()
    if failure or outcome.status:
        part.find(attack, f"not resumed: {failure or outcome.tail()}")
        return
    if work.result(folder) != expected:
        part.find(attack, f"the resumed result differs from the uninterrupted one ({folder.name})")
    if left := unexpected_files(folder, files):
        part.find(attack, f"left behind: {', '.join(left[:5])}")
