from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from kerneldoctor.environment import Driver, Fact, Gpu, Visibility
from kerneldoctor.host import CommandResult, RealHost
from kerneldoctor.probes import gpu, nvml
from tests.fake_host import FakeHost
from tests.probes import nvml_stub
from tests.probes.scenes import scene

LIBRARY = "/usr/lib/x86_64-linux-gnu"
OPEN_580 = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs@host)  Tue Sep 23\n"
    "GCC version:  gcc version 12.3.0\n"
)
PROPRIETARY_550 = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.135  Fri Jan 10 20:00:00 UTC 2025\n"
MODULES = {"/proc/driver/nvidia/version": OPEN_580, "/sys/module/nvidia/": "", "/sys/module/nvidia_uvm/": ""}
NODES = {f"/dev/{n}": None for n in ("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")}
USERLAND = {f"{LIBRARY}/libcuda.so.580.95.05": "", f"{LIBRARY}/libnvidia-ml.so.580.95.05": ""}
LINKS = {f"{LIBRARY}/{name}.so.1": f"{LIBRARY}/{name}.so.580.95.05" for name in ("libcuda", "libnvidia-ml")}
CACHE = {name + ".so.1": [f"{LIBRARY}/{name}.so.1"] for name in ("libcuda", "libnvidia-ml")}
H200_PCI = ["0000:65:00.0", "10de", "2335"]


def nvml_line(index: int, name: str = "NVIDIA H200", **more: Any) -> dict[str, Any]:
    line = {
        "index": index,
        "name": name,
        "uuid": f"GPU-{index}0000000",
        "compute_capability": [9, 0],
        "memory": 150754820096,
        "mig": False,
        "mig_devices": [],
        "fabric": 0,
        "errors": {},
    }
    return {"gpu": line | more}


def nvml_says(*lines: dict[str, Any], code: int = 0, trouble: str = "") -> dict[str, Any]:
    return {"lines": [json.dumps(line) for line in lines], "code": code, "trouble": trouble, "stderr": ""}


DRIVER_580 = {"driver": {"version": "580.95.05", "cuda": 13000, "errors": {}}}
HEALTHY = nvml_says(DRIVER_580, {"count": 1}, nvml_line(0), {"done": True})
MISMATCH = nvml_says({"error": 18, "text": "Driver/library version mismatch"})


def machine(nvml: Any = HEALTHY, **changes: Any) -> FakeHost:
    """A bare-metal H200 machine, with changes."""
    values: dict[str, Any] = {
        "files": {**MODULES, **NODES, **USERLAND},
        "links": LINKS,
        "observations": {"nvml": nvml, "pci": [H200_PCI], "loader_cache": CACHE},
    }
    extra = changes.pop("observations", {})
    values |= changes
    values["observations"] = {**values["observations"], **extra}
    return FakeHost(**values)


def look(host: Any) -> tuple[Driver, Fact[tuple[Gpu, ...]], Visibility]:
    parts: dict[str, Any] = gpu.probe(scene(host))
    assert list(parts) == ["driver", "gpus", "visibility"]
    return parts["driver"], parts["gpus"], parts["visibility"]


def no_fact_was_left_out(*records: Any) -> None:
    for record in records:
        for name in type(record).__dataclass_fields__:
            fact = getattr(record, name)
            assert fact.note, name
            assert fact.note != "not looked at", name


def test_healthy_machine() -> None:
    driver, gpus, visibility = look(machine())
    assert gpus.value is not None
    (one,) = gpus.value
    no_fact_was_left_out(driver, one, visibility)
    assert (one.name.value, one.vendor.value, one.compute_capability.value) == ("NVIDIA H200", "nvidia", "9.0")
    assert (one.memory_bytes.value, one.mig.value, one.visible.value) == (150754820096, False, True)
    assert one.mig_devices.is_absent
    assert (driver.version.value, driver.cuda.value) == ("580.95.05", "13.0")
    assert (driver.kernel_module_version.value, driver.kernel_module_flavour.value) == ("580.95.05", "open")
    assert (driver.kernel_module_loaded.value, driver.uvm_loaded.value, driver.pci_devices.value) == (True, True, 1)
    assert driver.nvml_error.is_absent
    assert driver.device_nodes.value == ("/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia0", "/dev/nvidiactl")
    assert (driver.libcuda.value, driver.libcuda_linkable.value) == (f"{LIBRARY}/libcuda.so.1", True)
    assert driver.cuda_compat.is_absent
    assert driver.fabric_manager.is_absent
    assert (visibility.count.value, visibility.raw.is_absent, visibility.problem.is_absent) == (1, True, True)


def test_machine_without_any_gpu_asks_nothing_and_knows_that_there_is_none() -> None:
    host = FakeHost(files={"/sys/module/": "", "/dev/null": None}, observations={"pci": []})
    driver, gpus, visibility = look(host)
    no_fact_was_left_out(driver, visibility)
    assert gpus.is_absent
    assert all(getattr(driver, name).is_absent for name in ("version", "cuda", "nvml_error", "libcuda", "device_nodes"))
    assert (driver.kernel_module_loaded.value, driver.pci_devices.value, visibility.count.value) == (False, 0, 0)
    assert not [asked for asked in host.asked if asked.startswith(("nvml", "nvidia-smi"))]


def test_container_without_gpus_flag() -> None:
    """The host's kernel module and PCI bus are seen, but neither device nodes nor libraries are there."""
    driver, gpus, visibility = look(
        FakeHost(
            files={**MODULES, "/.dockerenv": "", "/dev/null": None},
            observations={"pci": [H200_PCI], "nvml": nvml_says({"error": 12, "text": "NVML Shared Library Not Found"})},
        )
    )
    assert (driver.kernel_module_loaded.value, driver.pci_devices.value) == (True, 1)
    assert driver.device_nodes.is_absent
    assert driver.libcuda.is_absent
    assert driver.version.is_absent
    assert driver.nvml_error.value == "library_not_found"
    assert gpus.is_absent
    assert "/dev/nvidia" in gpus.note
    assert visibility.count.value == 0
    no_fact_was_left_out(driver, visibility)


def test_driver_updated_without_reboot() -> None:
    files = {**MODULES, **NODES, **USERLAND, "/proc/driver/nvidia/version": PROPRIETARY_550}
    driver, gpus, visibility = look(machine(MISMATCH, files=files))
    assert (driver.nvml_error.value, driver.nvml_error_text.value) == (
        "driver_library_mismatch",
        "Driver/library version mismatch",
    )
    # Both versions are stated although NVML gave none: the library's is in its file name.
    assert (driver.version.value, driver.kernel_module_version.value) == ("580.95.05", "550.135")
    assert driver.kernel_module_flavour.value == "proprietary"
    assert driver.cuda.is_unknown
    assert gpus.value is not None
    assert gpus.value[0].vendor.value == "nvidia"
    assert gpus.value[0].name.note == "Driver/library version mismatch"
    assert visibility.count.is_unknown


def test_hanging_nvml_still_tells_what_files_say_and_asks_no_nvidia_smi() -> None:
    host = machine(
        nvml_says({"stage": "nvmlInit"}, code=0, trouble="timeout"), programs={"nvidia-smi": "/bin/nvidia-smi"}
    )
    driver, gpus, visibility = look(host)
    assert driver.nvml_error.value == "timeout"
    assert (driver.kernel_module_version.value, driver.version.value) == ("580.95.05", "580.95.05")
    assert gpus.value is not None
    assert gpus.value[0].compute_capability.is_unknown
    assert not [asked for asked in host.asked if "nvidia-smi" in asked]
    no_fact_was_left_out(driver, gpus.value[0], visibility)


SMI = "/usr/bin/nvidia-smi"
SMI_NEW = (SMI, "--query-gpu=index,name,uuid,memory.total,driver_version,compute_cap,mig.mode.current")
SMI_OLD = (SMI, "--query-gpu=index,name,uuid,memory.total,driver_version")
FORMAT = "--format=csv,noheader,nounits"


def test_nvidia_smi_answers_where_nvml_cannot_be_loaded() -> None:
    host = machine(
        nvml_says({"error": -1, "text": "No module named 'pynvml'"}),
        programs={"nvidia-smi": SMI},
        commands={(*SMI_NEW, FORMAT): "0, NVIDIA H200, GPU-1, 143771, 580.95.05, 9.0, Disabled\n"},
    )
    driver, gpus, _ = look(host)
    assert gpus.value is not None
    (one,) = gpus.value
    assert (one.name.value, one.compute_capability.value, one.mig.value) == ("NVIDIA H200", "9.0", False)
    assert (one.memory_bytes.value, one.name.note) == (143771 * 1024 * 1024, "nvidia-smi")
    assert (driver.version.value, driver.version.note) == ("580.95.05", "nvidia-smi")
    assert driver.nvml_error.value == "binding_missing"


def test_old_nvidia_smi_that_knows_no_compute_cap() -> None:
    host = machine(
        nvml_says(code=-11),
        programs={"nvidia-smi": SMI},
        commands={
            (*SMI_NEW, FORMAT): CommandResult(2, 'Field "compute_cap" is not a valid field to query.', ""),
            (*SMI_OLD, FORMAT): "0, Tesla V100-SXM2-16GB, GPU-1, 16160, 470.57.02\n",
        },
    )
    _, gpus, _ = look(host)
    assert gpus.value is not None
    assert gpus.value[0].name.value == "Tesla V100-SXM2-16GB"
    assert gpus.value[0].compute_capability.is_unknown


def test_driver_that_lists_no_device() -> None:
    """Blackwell on proprietary modules: NVML works, the bus has a GPU, the list is empty."""
    driver, gpus, visibility = look(machine(nvml_says(DRIVER_580, {"count": 0}, {"done": True})))
    assert (driver.pci_devices.value, driver.nvml_error.is_absent, gpus.is_absent) == (1, True, True)
    assert visibility.count.value == 0


def test_machine_without_the_driver_still_names_its_gpu_as_nvidia() -> None:
    host = FakeHost(
        files={"/sys/module/nouveau/": "", "/dev/null": None},
        observations={"pci": [H200_PCI], "nvml": nvml_says({"error": 12, "text": "not found"})},
    )
    driver, gpus, _ = look(host)
    assert (driver.kernel_module_loaded.value, driver.uvm_loaded.value) == (False, False)
    assert gpus.value is not None
    assert [one.vendor.value for one in gpus.value] == ["nvidia"]


def test_wsl() -> None:
    folder = "/usr/lib/wsl/lib"
    host = FakeHost(
        files={"/dev/dxg": None, f"{folder}/libcuda.so.1": "", f"{folder}/libnvidia-ml.so.1": "", "/sys/module/": ""},
        observations={"nvml": HEALTHY, "loader_cache": {}},
    )
    driver, gpus, _ = look(host)
    assert driver.kernel_module_loaded.is_absent
    assert (driver.libcuda.value, driver.libcuda_linkable.value) == (f"{folder}/libcuda.so.1", False)
    assert driver.device_nodes.value == ("/dev/dxg",)
    assert gpus.is_known


def test_wsl_with_a_gpu_of_another_make_is_no_nvml_error() -> None:
    driver, gpus, visibility = look(FakeHost(files={"/dev/dxg": None, "/sys/module/": ""}))
    assert driver.nvml_error.is_absent
    assert gpus.is_unknown
    assert visibility.count.is_unknown
    no_fact_was_left_out(driver, visibility)


@pytest.mark.parametrize(
    ("files", "links", "environ"),
    [
        ({"/usr/local/cuda-13.0/compat/libcuda.so.1": ""}, {}, {"LD_LIBRARY_PATH": "/usr/local/cuda-13.0/compat"}),
        (
            {"/usr/local/cuda/compat/lib.real/libcuda.so.1": ""},
            {"/opt/nvidia/lib": "/usr/local/cuda/compat/lib.real"},
            {"LD_LIBRARY_PATH": "/opt/nvidia/lib"},
        ),
        ({"/opt/conda/cuda-compat/libcuda.so.1": ""}, {}, {"LD_LIBRARY_PATH": "/opt/conda/cuda-compat"}),
    ],
)
def test_forward_compatibility_libcuda(files: Any, links: Any, environ: Any) -> None:
    host = machine(files={**MODULES, **NODES, **USERLAND, **files}, links={**LINKS, **links}, environ=environ)
    driver, _, _ = look(host)
    assert driver.cuda_compat.value == driver.libcuda.value
    assert driver.cuda_compat.note == "LD_LIBRARY_PATH"


def test_compat_folder_that_does_not_come_first_is_not_in_force() -> None:
    files = {**MODULES, **NODES, **USERLAND, "/usr/local/cuda/compat/libcuda.so.1": ""}
    assert look(machine(files=files))[0].cuda_compat.is_absent


def test_unreadable_loader_cache_leaves_linkable_unknown() -> None:
    driver, _, _ = look(machine(observations={"loader_cache": None}))
    assert driver.libcuda.value == f"{LIBRARY}/libcuda.so.1"
    assert driver.libcuda_linkable.is_unknown


@pytest.mark.parametrize(
    ("fabric", "nodes", "processes", "files", "expected"),
    [
        (3, True, None, {}, "running"),
        (2, True, None, {}, "stopped"),
        (None, True, True, {}, "running"),
        (None, True, False, {}, "stopped"),
        (None, True, False, {"/.dockerenv": ""}, "unknown"),
        (1, False, None, {}, "absent"),
    ],
)
def test_fabric_manager(fabric: Any, nodes: bool, processes: Any, files: Any, expected: str) -> None:
    switches = {"/dev/nvidia-nvswitch0": None, "/dev/nvidia-nvswitchctl": None} if nodes else {}
    host = machine(
        nvml_says(DRIVER_580, {"count": 1}, nvml_line(0, fabric=fabric), {"done": True}),
        files={**MODULES, **NODES, **USERLAND, **switches, **files},
        observations={"process": processes},
    )
    fact = look(host)[0].fabric_manager
    assert (fact.value or fact.state.value) == expected


def test_one_lost_gpu() -> None:
    lost = {"gpu": {"index": 1, "error": 15, "text": "GPU is lost"}}
    driver, gpus, _ = look(machine(nvml_says(DRIVER_580, {"count": 2}, nvml_line(0), lost, {"done": True})))
    assert (driver.nvml_error.value, driver.nvml_error_text.value) == ("gpu_is_lost", "GPU 1: GPU is lost")
    assert gpus.value is not None
    assert gpus.value[0].name.value == "NVIDIA H200"
    assert (gpus.value[1].index.value, gpus.value[1].name.note) == (1, "NVML: gpu_is_lost")


def test_mig() -> None:
    line = nvml_line(0, mig=True, mig_devices=[["MIG-1", 1], ["MIG-2", 2]])
    said = nvml_says(DRIVER_580, {"count": 2}, line, nvml_line(1), {"done": True})
    _, gpus, visibility = look(machine(said, environ={"CUDA_VISIBLE_DEVICES": "MIG-2"}))
    assert gpus.value is not None
    assert [(g.mig.value, g.mig_devices.value, g.visible.value) for g in gpus.value] == [
        (True, 2, True),
        (False, None, False),
    ]
    assert (visibility.count.value, visibility.uses_uuid.value) == (1, True)


def test_mig_mode_of_which_nvidia_smi_lists_no_devices() -> None:
    host = machine(
        nvml_says({"error": -1, "text": "No module named 'pynvml'"}),
        programs={"nvidia-smi": SMI},
        commands={(*SMI_NEW, FORMAT): "0, NVIDIA H200, GPU-1, 143771, 580.95.05, 9.0, Enabled\n"},
    )
    _, gpus, visibility = look(host)
    assert gpus.value is not None
    assert (gpus.value[0].mig.value, gpus.value[0].mig_devices.is_unknown) == (True, True)
    assert (visibility.count.is_unknown, gpus.value[0].visible.is_unknown) == (True, True)


def test_gpu_too_old_for_mig() -> None:
    said = nvml_says(DRIVER_580, {"count": 1}, nvml_line(0, mig=None, errors={"mig": 3}), {"done": True})
    _, gpus, _ = look(machine(said))
    assert gpus.value is not None
    assert gpus.value[0].mig.value is False


def test_rubbish_in_cuda_visible_devices() -> None:
    _, gpus, visibility = look(machine(environ={"CUDA_VISIBLE_DEVICES": "all"}))
    assert (visibility.raw.value, visibility.problem.value, visibility.ignored.value) == ("all", "invalid_entry", "all")
    assert visibility.count.value == 0
    assert gpus.value is not None
    assert gpus.value[0].visible.value is False


def test_amd_beside_nvidia_and_intel_graphics_in_the_processor() -> None:
    devices = [["0000:00:02.0", "8086", "a780"], H200_PCI, ["0000:83:00.0", "1002", "74a1"]]
    files = {
        **MODULES,
        **NODES,
        **USERLAND,
        "/sys/class/kfd/": "",
        "/opt/rocm/.info/version": "6.2.4-120\n",
        "/dev/dri/": "",
    }
    _, gpus, visibility = look(machine(files=files, observations={"pci": devices}))
    assert gpus.value is not None
    assert [g.vendor.value for g in gpus.value] == ["nvidia", "amd"]
    amd = gpus.value[1]
    no_fact_was_left_out(amd)
    assert "ROCm 6.2.4-120" in amd.vendor.note
    assert amd.compute_capability.is_absent
    assert amd.memory_bytes.is_unknown
    assert visibility.count.value == 1


@pytest.mark.parametrize("vendor", ["1002", "8086"])
def test_other_makers_alone(vendor: str) -> None:
    host = FakeHost(
        files={"/dev/dri/": "", "/sys/module/": ""}, observations={"pci": [["0000:03:00.0", vendor, "56a0"]]}
    )
    driver, gpus, _ = look(host)
    assert gpus.value is not None
    assert gpus.value[0].vendor.value == {"1002": "amd", "8086": "intel"}[vendor]
    assert driver.nvml_error.is_absent


def test_apple() -> None:
    host = FakeHost(
        observations={"platform": {"os": "darwin", "machine": "arm64"}},
        commands={("sysctl", "-n", "machdep.cpu.brand_string"): "Apple M2\n"},
    )
    _, gpus, _ = look(host)
    assert gpus.value is not None
    assert (gpus.value[0].vendor.value, gpus.value[0].name.value) == ("apple", "Apple M2")


@pytest.mark.parametrize(
    "raw", [{"lines": 3}, {"lines": ['{"gpu": {"compute_capability": 9, "errors": []}}']}, "text", []]
)
def test_capture_with_rubbish_is_no_crash(raw: Any) -> None:
    driver, _, _ = look(machine(raw))
    assert driver.nvml_error.value == "crashed"


def test_hang_through_the_real_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both NVML and nvidia-smi hang: the probe answers within its limit and has not even started nvidia-smi."""
    nvml_stub.build(tmp_path)
    started = tmp_path / "started"
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\ntouch {started}\nexec sleep 60\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("STUB_NVML", "hang")
    monkeypatch.setattr(nvml, "TIME_LIMIT", 0.8)
    began = time.monotonic()
    driver, _, _ = look(RealHost())
    assert time.monotonic() - began < 15
    assert driver.nvml_error.value == "timeout"
    assert not started.exists()


def test_hanging_nvidia_smi_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kerneldoctor.probes import nvidia_smi

    nvml_stub.build(tmp_path)
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\nsleep 60 & sleep 60\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("STUB_NVML", "abort")
    monkeypatch.setattr(nvidia_smi, "TIME_LIMIT", 0.5)
    began = time.monotonic()
    driver, _, _ = look(RealHost())
    assert time.monotonic() - began < 15
    assert driver.nvml_error.value == "crashed"


@pytest.mark.gpu
def test_this_machine() -> None:
    driver, gpus, visibility = look(RealHost())
    if not gpus.value:
        pytest.skip("no GPU")
    assert driver.nvml_error.is_absent
    no_fact_was_left_out(driver, visibility, *gpus.value)
