import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLING = """
import time
from envgen.mapf.sampler import processes
if __name__ == "__main__":
    with processes(2) as pool:
        list(pool.map(abs, range(8)))
        print(*pool._processes, flush=True)
        time.sleep(600)
"""


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
@pytest.mark.timeout(120)
def test_the_workers_of_a_killed_sampler_end_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "sampling.py").write_text(SAMPLING)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{tmp_path}")
    process = subprocess.Popen([sys.executable, "-m", "sampling"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        workers = list(map(int, process.stdout.readline().split()))
        assert len(workers) == 2
        assert all(map(running, workers))
        process.send_signal(signal.SIGKILL)
        process.wait()
        while any(map(running, workers)):
            time.sleep(0.01)
