"""All GPUs of a machine are found, in the driver's order. The driver is a double that is built here."""

import json
import os
import subprocess
import sys

import pytest

from tests.c_programs import build

_DRIVER = """
#include <string.h>
int cuInit(unsigned flags) { return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal < COUNT ? 0 : 101; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, device ? "second" : "first", size); return 0; }
int cuDeviceGetAttribute(int *value, int number, int device) {
    *value = number == 75 ? (device == UNKNOWN ? 3 : 9) : number == 76 ? 0 : number;
    return 0;
}
int cuDeviceGetUuid_v2(unsigned char *id, int device) { memset(id, 0x20 - device, 16); return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
"""


def found(folder, count, unknown=-1):
    source = folder / "driver.c"
    source.write_text(_DRIVER)
    build(source, folder / "libcuda.so.1", "-shared", f"-DCOUNT={count}", f"-DUNKNOWN={unknown}")
    asked = subprocess.run(
        [sys.executable, "-m", "cutegen_core.machine.device"], env=os.environ | {"LD_LIBRARY_PATH": str(folder)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in asked.stdout.splitlines()]


@pytest.mark.parametrize(("count", "names"), [(0, []), (2, ["first", "second"])])
def test_every_gpu_is_found(tmp_path, count, names):
    devices = found(tmp_path, count)
    assert [device["name"] for device in devices] == names
    assert len({device["uuid"] for device in devices}) == count
    assert all(device["arch"] == "sm_90a" and device["driver"] == "13.0" for device in devices)


def test_the_first_of_an_unknown_architecture_ends_the_list(tmp_path):
    assert [device["name"] for device in found(tmp_path, 3, unknown=1)] == ["first"]
