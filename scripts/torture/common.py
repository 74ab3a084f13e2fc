"""What all parts share: running a program under a time limit, classifying its end, and counting."""

import collections
import dataclasses
import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

# Exit status of a Rust program that panicked, and of a shell that reports an abort.
PANIC, ABORT = 101, 134
# Exit status of the lab when a signal asked it to stop.
INTERRUPTED = 130


@dataclasses.dataclass
class Setup:
    """Programs and folders of a part, and its random numbers."""

    root: Path
    tandem: Path
    lab: Path
    folder: Path
    random: random.Random

    def has_torch(self):
        """True if the lab can train transformers."""
        return "not in this build" not in run([self.lab, "doctor"], self.folder).text


class Part:
    """Amounts and findings of one part, and its time."""

    def __init__(self, name, seconds):
        self.name = name
        self.start = time.monotonic()
        self.end = self.start + seconds
        self.amounts = collections.Counter()
        self.findings = []
        self.not_run = []
        self.seconds = 0
        self._printed = self.start

    def has_time(self, seconds=0):
        return time.monotonic() + seconds < self.end

    def left(self):
        return max(0, self.end - time.monotonic())

    def count(self, attack, amount=1):
        self.amounts[attack] += amount
        if time.monotonic() - self._printed > 10:
            self._print()

    def find(self, attack, text):
        self.amounts[attack] += 0
        self.findings.append((attack, text))
        print(f"FINDING in {self.name}, {attack}: {text}", flush=True)

    def skip(self, text):
        self.not_run.append(text)

    def found_in(self, attack):
        return sum(name == attack for name, _ in self.findings)

    def finish(self):
        self.seconds = round(time.monotonic() - self.start)
        self._print()

    def summary(self):
        return {
            "part": self.name,
            "seconds": self.seconds,
            "amounts": dict(self.amounts),
            "findings": [{"attack": attack, "text": text} for attack, text in self.findings],
            "not_run": self.not_run,
        }

    def _print(self):
        self._printed = time.monotonic()
        print("  " + ", ".join(f"{attack}: {amount:,}" for attack, amount in self.amounts.items()), flush=True)


@dataclasses.dataclass
class Outcome:
    """End of a process."""

    command: str
    status: int  # negative: the signal that ended it
    text: str  # start and end of both outputs
    seconds: float
    hung: bool
    peak: int  # MiB of memory

    def failure(self, may_abort_for_memory=False):
        """Description of a crash or a hang, or None."""
        if self.hung:
            return f"no end within {self.seconds:.0f} s: {self.command}"
        out_of_memory = "memory allocation of" in self.text or "out of memory" in self.text.lower()
        if may_abort_for_memory and out_of_memory and self.status in (-signal.SIGABRT, ABORT):
            return None
        if self.status < 0:
            return f"ended by {signal.Signals(-self.status).name}: {self.command}: {self.tail()}"
        if self.status in (PANIC, ABORT) or "panicked at" in self.text:
            return f"panicked (exit {self.status}): {self.command}: {self.tail()}"
        if self.status not in (0, 1, 2, INTERRUPTED):
            return f"exit {self.status}: {self.command}: {self.tail()}"
        if self.status in (1, 2) and not self.text.strip():
            return f"exit {self.status} without a message: {self.command}"
        return None

    def tail(self):
        return " / ".join(self.text.strip().splitlines()[-3:])[-400:]


def limits(memory=None, file_size=None):
    """Function that sets limits in a child process, in bytes."""

    def set_limits():
        # Core files would fill the disk.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if memory:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        if file_size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

    return set_limits


def start(command, folder, out, stdin=subprocess.DEVNULL, memory=None, file_size=None):
    """Starts a process in a session of its own, so that its children can be ended with it."""
    return subprocess.Popen(
        [str(part) for part in command],
        cwd=folder,
        stdin=stdin,
        stdout=out,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=limits(memory, file_size),
    )


def end(process):
    """Kills a process and its children, and waits for it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run(command, folder, timeout=60, memory=None, file_size=None, stdin=None, stdout=None):
    """Runs a command to its end. `stdin` is bytes, `stdout` a file that replaces the recorded output."""
    began = time.monotonic()
    shown = " ".join(str(part) for part in command)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as given:
        given.write(stdin or b"")
        given.seek(0)
        if file_size is not None:
            # The limit would also cut the message, if it were recorded in a file directly.
            process = start(command, folder, subprocess.PIPE, given, memory, file_size)
            copying = threading.Thread(target=shutil.copyfileobj, args=(process.stdout, out))
            copying.start()
        elif stdout is None:
            process = start(command, folder, out, given, memory, file_size)
        else:
            process = subprocess.Popen([str(part) for part in command], cwd=folder, stdin=given, stdout=stdout, stderr=out,
                                       start_new_session=True, preexec_fn=limits(memory, file_size))
        hung, peak = False, 0
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                peak = usage.ru_maxrss >> 10
                break
            if time.monotonic() - began > timeout:
                hung = True
                end(process)
                break
            time.sleep(0.002)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        if file_size is not None:
            copying.join()
            process.stdout.close()
        return Outcome(shown, process.returncode, text_of(out), time.monotonic() - began, hung, peak)


def text_of(file, most=20_000):
    """Start and end of a file as text."""
    length = file.seek(0, os.SEEK_END)
    file.seek(0)
    if length <= 2 * most:
        return file.read().decode(errors="replace")
    head = file.read(most)
    file.seek(length - most)
    return (head + b"\n...\n" + file.read()).decode(errors="replace")


def tree(folder):
    """Relative paths of all files in a folder."""
    return {str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file()}
