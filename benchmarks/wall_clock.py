"""Effect of a jumping wall clock on a deployment: its outcome, and the share of a core of each of its threads.

    python benchmarks/wall_clock.py [CASE ...] [--seconds 6] [--domain N]

'gaitway twin' hangs on its stand, 'gaitway deploy --excite' moves it, and a library that is loaded before all others
shows the deployment another wall clock; this computer's is left alone. It needs a C compiler, cc. Cases:

  true      the clock as it is
  back      an hour back after 12 s, forward: an hour ahead, flapping: both, every 2 s. Waits for a wall-clock time end
            as the kernel would end them
  shown late  an hour behind all the time, but the kernel ends waits by its own clock: what libfaketime and its like do
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GAITWAY = (sys.executable, "-m", "gaitway")
CASES = {"true": "0", "back": "T<12?3600:0", "forward": "T<12?0:3600", "flapping": "(long)(T/2)%2?3600:0"}
SHOWN_LATE = "-3600"
PATIENT = ("max_state_age=0.5", "max_stall=1", "max_overruns=2000", "max_policy_overruns=50", "max_silence=0.5")
SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static double now(void) {
  struct timespec t;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}
static double begun;
__attribute__((constructor)) static void begin(void) { begun = now(); }
int clock_gettime(clockid_t id, struct timespec *t) {
  int result = syscall(SYS_clock_gettime, id, t);
  double T = now() - begun;
  if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) t->tv_sec += OFFSET;
  (void)T;
  return result;
}
#ifdef AS_THE_KERNEL
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until) {
  static int (*wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
  if (!wait) wait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", WAIT_VERSION);
  if (until->tv_sec < 1000000000L) return wait(cond, mutex, until); /* on the monotonic clock: Python's own lock */
  for (;;) {
    struct timespec shown, real;
    clock_gettime(CLOCK_REALTIME, &shown);
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &real);
    long long left = (until->tv_sec - shown.tv_sec) * 1000000000LL + until->tv_nsec - shown.tv_nsec;
    if (left <= 0) return ETIMEDOUT;
    long long next = real.tv_nsec + (left < 20000000LL ? left : 20000000LL);
    real.tv_sec += next / 1000000000LL, real.tv_nsec = next % 1000000000LL;
    int result = wait(cond, mutex, &real);
    if (result != ETIMEDOUT) return result;
  }
}
#endif
"""
WAIT_VERSION = {"x86_64": "GLIBC_2.3.2"}.get(os.uname().machine, "GLIBC_2.17")


def library(folder: Path, offset: str, *, as_the_kernel: bool) -> Path:
    source, built = folder / "clock.c", folder / "clock.so"
    source.write_text(SOURCE)
    defined = [f"-DOFFSET=({offset})", f'-DWAIT_VERSION="{WAIT_VERSION}"', *(["-DAS_THE_KERNEL"] * as_the_kernel)]
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", *defined, "-o", built, source, "-ldl"], check=True)
    return built


def threads(pid: int) -> dict[tuple[str, str], float]:
    """CPU time of each thread so far [s], by number and name."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        user, system = rest.split()[11:13]
        found[task.name, name] = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return found


def measure(case: str, preload: Path, domain: int, seconds: float) -> None:
    wire = "--domain", str(domain)
    limits = [word for limit in PATIENT for word in ("--limit", limit)]
    twin = subprocess.Popen([*GAITWAY, "twin", "unitree-go2", "--hung", *wire], stdout=subprocess.PIPE, text=True)
    assert twin.stdout is not None
    twin.stdout.readline()
    deploy = subprocess.Popen(
        [*GAITWAY, "deploy", "--excite", "600", "--robot", "unitree-go2", "--interface", "lo", *wire, "--auto", "--yes",
         "--i-know", *limits],
        env=os.environ | {"LD_PRELOAD": str(preload)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert deploy.stdout is not None
    begun = time.monotonic()
    try:
        next((line for line in deploy.stdout if line.startswith("policy: the policy drives")), None)
        time.sleep(max(1.0, begun + 14.0 - time.monotonic()))  # past the jump
        before = threads(deploy.pid)
        time.sleep(seconds)
        shares = {key: (used - before.get(key, 0.0)) / seconds for key, used in threads(deploy.pid).items()}
        asked = time.monotonic()
        deploy.send_signal(signal.SIGTERM)
        try:
            end = deploy.communicate(timeout=60.0)[0].splitlines()[0]
        except subprocess.TimeoutExpired:
            end = "it did not end"
    finally:
        deploy.kill()
        twin.send_signal(signal.SIGINT)
        twin.wait(20.0)
    busy = ", ".join(f"{name} {100 * share:.0f} %" for (_, name), share in shares.items() if share > 0.02)
    print(f"{case:11} {100 * sum(shares.values()):4.0f} % of a core ({busy}); {end}, after "
          f"{time.monotonic() - asked:.1f} s", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=[*CASES, "shown late"], help="of these, all by default")
    parser.add_argument("--seconds", type=float, default=6.0, help="of measuring, for each case")
    parser.add_argument("--domain", type=int, default=2 + os.getpid() % 98)
    options = parser.parse_args()
    for case in options.cases:
        with tempfile.TemporaryDirectory() as folder:
            preload = library(Path(folder), CASES.get(case, SHOWN_LATE), as_the_kernel=case in CASES)
            measure(case, preload, options.domain, options.seconds)


if __name__ == "__main__":
    main()
