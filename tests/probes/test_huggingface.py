from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kerneldoctor.environment import HuggingFace
from kerneldoctor.host import Host, RealHost, RecordingHost
from kerneldoctor.probes.huggingface import PROXY_VARIABLES, TOKEN_VARIABLES, VARIABLES, probe

from ..fake_host import FakeHost
from .sites import add, scene
from .test_kernel_cache import A, snapshot


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, and none of the variables that count."""
    proxies = (name for upper in PROXY_VARIABLES for name in (upper, upper.lower()))
    for name in (*VARIABLES, *TOKEN_VARIABLES, *proxies, "HF_TOKEN_PATH", "HF_OIDC_RESOURCE", "COLAB_RELEASE_TAG"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


def look(*site: Path, host: Host | None = None) -> HuggingFace:
    found = probe(scene(*site, host=host))["huggingface"]
    assert isinstance(found, HuggingFace)
    return found


def test_a_fresh_machine(home: Path) -> None:
    found = look()
    assert found.endpoint.value == "https://huggingface.co"
    assert found.offline.value is False
    assert found.telemetry_disabled.value is False
    assert found.telemetry_variable.is_absent
    assert found.kernels_cache.value == f"{home}/.cache/huggingface/hub"
    assert found.cache_exists.value is False
    assert found.cache_writable.value is True  # of the home, in which it would be made
    assert (found.cache_free_bytes.value or 0) > 0
    assert found.token.value is False
    assert found.cached_kernels.value == ()
    assert found.local_kernels.is_absent
    assert found.use_hub_kernels.value is True
    assert found.proxies.is_absent


THEIRS = """
import json
from huggingface_hub import constants, get_token
print(json.dumps([
    constants.ENDPOINT, constants.HF_HUB_OFFLINE, constants.HF_HUB_DISABLE_TELEMETRY, constants.HF_HOME,
    constants.HF_HUB_CACHE, get_token() is not None,
]))
"""


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"HF_ENDPOINT": "https://hub.example.org/", "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"},
        {"HF_ENDPOINT": "", "HF_HUB_OFFLINE": "yes", "TRANSFORMERS_OFFLINE": "0", "DISABLE_TELEMETRY": "on"},
        {"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "true", "HF_TOKEN": "hf_x"},
        {"HF_HUB_OFFLINE": "", "TRANSFORMERS_OFFLINE": "True", "DO_NOT_TRACK": "2", "HUGGING_FACE_HUB_TOKEN": "hf_x"},
        {"HF_HOME": "~/hf", "DISABLE_TELEMETRY": "y", "HF_TOKEN": " "},
        {"HF_HOME": "$HOME/a/${USER_OF_TEST}/$NOT_SET", "USER_OF_TEST": "me"},
        {"XDG_CACHE_HOME": "/xdg", "HF_TOKEN_PATH": "~/my-token"},
        {"HF_HUB_CACHE": "~/cache", "HUGGINGFACE_HUB_CACHE": "/old"},
        {"HF_HOME": "/hf", "HUGGINGFACE_HUB_CACHE": "/old"},
        {"HUGGINGFACE_CO_STAGING": "1", "HF_ENDPOINT": "https://hub.example.org"},
    ],
)
def test_variables_are_read_as_huggingface_hub_reads_them(
    home: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    (home / "my-token").write_text("hf_x\n")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    run = subprocess.run([sys.executable, "-c", THEIRS], capture_output=True, text=True, check=True)
    ours = look()
    facts = (ours.endpoint, ours.offline, ours.telemetry_disabled, ours.home, ours.kernels_cache, ours.token)
    assert [fact.value for fact in facts] == json.loads(run.stdout)


@pytest.mark.parametrize("switch", ["HF_HUB_DISABLE_TELEMETRY", "DISABLE_TELEMETRY", "DO_NOT_TRACK"])
def test_the_switch_that_turned_telemetry_off_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, switch: str
) -> None:
    monkeypatch.setenv(switch, "1")
    assert look().telemetry_variable.value == switch


@pytest.mark.parametrize(
    ("release", "folder"),
    [
        (None, "/new"),
        ("0.17.2", "/new"),
        ("0.14.0", "/new"),
        ("0.13.0", "/old"),  # warns, and takes the old one first
        ("0.4.2", "/old"),
    ],
)
def test_the_cache_variable_that_the_installed_kernels_reads(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str | None, folder: str
) -> None:
    monkeypatch.setenv("KERNELS_CACHE", "/new")
    monkeypatch.setenv("HF_KERNELS_CACHE", "/old")
    if release:
        add(tmp_path, "kernels", release)
    assert look(tmp_path).kernels_cache.value == folder


def test_a_variable_that_the_installed_kernels_no_longer_reads_is_passed_over(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_KERNELS_CACHE", "/old")
    add(tmp_path, "kernels", "0.17.2")
    assert look(tmp_path).kernels_cache.value == f"{home}/.cache/huggingface/hub"


def test_an_empty_cache_variable_means_the_current_folder(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELS_CACHE", "")
    monkeypatch.chdir(tmp_path)
    cache = look().kernels_cache
    assert cache.value == str(tmp_path)
    assert "empty" in cache.note


def test_a_read_only_home_is_not_writable() -> None:
    host = FakeHost(files={"/home/u/": ""}, environ={"HOME": "/home/u"}, read_only=frozenset({"/home/u"}))
    found = look(host=host)
    assert found.cache_exists.value is False
    assert found.cache_writable.value is False
    assert found.cache_writable.note == "/home/u"


def test_a_file_in_the_place_of_the_cache_is_not_writable(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").write_text("")
    monkeypatch.setenv("KERNELS_CACHE", str(home / "file" / "hub"))
    found = look()
    assert found.cache_exists.value is False
    assert found.cache_writable.value is False


def test_an_unreadable_home_is_unknown_not_empty() -> None:
    host = FakeHost(files={"/home/u/x": ""}, environ={"HOME": "/home/u"}, denied=frozenset({"/home/u"}))
    found = look(host=host)
    assert found.cache_exists.is_unknown
    assert found.cache_writable.is_unknown
    assert found.endpoint.is_known


def test_the_token_is_seen_and_never_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".cache" / "huggingface").mkdir(parents=True)
    (home / ".cache" / "huggingface" / "token").write_text("hf_secret_in_file")
    recording = RecordingHost(RealHost())
    assert look(host=recording).token.value is True
    monkeypatch.setenv("HF_TOKEN", "hf_secret_in_variable")
    assert look(host=recording).token.note == "HF_TOKEN"
    assert "secret" not in json.dumps(recording.capture(VARIABLES.__contains__))


def test_proxies_are_named_and_never_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://user:secret@proxy:3128")
    monkeypatch.setenv("NO_PROXY", "localhost")
    monkeypatch.setenv("HTTP_PROXY", "")
    recording = RecordingHost(RealHost())
    assert look(host=recording).proxies.value == ("https_proxy", "NO_PROXY")
    assert "secret" not in json.dumps(recording.capture(VARIABLES.__contains__))


def test_a_password_in_the_endpoint_is_left_out(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://user:secret@mirror.example.org/hf")
    endpoint = look().endpoint
    assert endpoint.value == "https://mirror.example.org/hf"
    assert "secret" not in endpoint.note


@pytest.mark.parametrize(
    ("raw", "entries", "wrong"),
    [
        ("o/n=/a:o/m=/b", ("o/n=/a", "o/m=/b"), False),
        ("", ("",), True),
        (r"o/n=C:\k\demo", ("o/n=C", r"\k\demo"), True),
    ],
)
def test_local_kernels(
    home: Path, monkeypatch: pytest.MonkeyPatch, raw: str, entries: tuple[str, ...], wrong: bool
) -> None:
    monkeypatch.setenv("LOCAL_KERNELS", raw)
    fact = look().local_kernels
    assert fact.value == entries
    assert ("is not repo=path" in fact.note) is wrong


@pytest.mark.parametrize(("value", "on"), [("0", False), ("no", False), ("", False), ("yes", True), ("1", True)])
def test_use_hub_kernels(home: Path, monkeypatch: pytest.MonkeyPatch, value: str, on: bool) -> None:
    monkeypatch.setenv("USE_HUB_KERNELS", value)
    assert look().use_hub_kernels.value is on


def test_cached_kernels_of_the_folder_in_force(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "elsewhere"
    snapshot(cache, "kernels--kernels-community--relu", A, "build/torch-cpu/_relu_cpu_1111111.abi3.so")
    monkeypatch.setenv("KERNELS_CACHE", str(cache))
    (kernel,) = look().cached_kernels.value or ()
    assert (kernel.repo, kernel.build_ids, kernel.complete) == ("kernels-community/relu", ("1111111",), None)


def test_names_of_cached_models_are_not_recorded(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot(tmp_path / "hub", "models--acme--secret-project", A, "config.json")
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path / "hub"))
    recording = RecordingHost(RealHost())
    look(host=recording)
    assert "secret-project" not in json.dumps(recording.capture(VARIABLES.__contains__))


def test_colab_and_oidc_tokens_are_unknown(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release-colab")
    assert look().token.is_unknown
    monkeypatch.delenv("COLAB_RELEASE_TAG")
    monkeypatch.setenv("HF_OIDC_RESOURCE", "org/repo")
    assert look().token.is_unknown


def test_nothing_of_the_hub_client_is_imported() -> None:
    code = (
        "import sys; from kerneldoctor.host import RealHost; from kerneldoctor.probes.interpreter import find_target\n"
        "from kerneldoctor.probes.scene import Scene\n"
        "from kerneldoctor.probes import huggingface, packages, python, requirements\n"
        "scene = Scene(RealHost(), find_target(RealHost(), None))\n"
        "for module in (huggingface, packages, python, requirements): module.probe(scene)\n"
        "heavy = {'huggingface_hub', 'kernels', 'torch', 'email', 'importlib.metadata', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    root = Path(__file__).parents[2]
    environ = {**os.environ, "PYTHONPATH": str(root)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    assert run.stdout.strip() == "[]"
