"""What is found in a code base, and what is not: real files in real folders, git where it decides."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from kerneldoctor.errors import UsageError
from kerneldoctor.pins.model import Pin, Search
from kerneldoctor.pins.places import _READ
from kerneldoctor.pins.search import search

FLASH = "kernels-community/flash-attn2"
COMMIT = "81fb77c12b2ad5d69380669b46739d5868614502"
ROOT = Path(__file__).parent.parent.parent


def found(folder: Path, name: str, text: str) -> list[Pin]:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return list(search([str(path)]).pins)


def short(pins: list[Pin]) -> list[tuple[int, str, str]]:
    return [(pin.line, pin.kind, pin.reference) for pin in pins]


class TestPython:
    @pytest.mark.parametrize(
        ("line", "kind", "reference"),
        [
            (f'load(x, attn_implementation="{FLASH}")', "unpinned", FLASH),
            (f"load(x, attn_implementation='{FLASH}@v3')", "version", f"{FLASH}@v3"),
            (f'load(x, attn_implementation="{FLASH}@main")', "branch", f"{FLASH}@main"),
            (f'load(x, attn_implementation="{FLASH}@{COMMIT}")', "commit", f"{FLASH}@{COMMIT}"),
            ('load(x, attn_implementation="sdpa")', "builtin", "sdpa"),
            ('load(x, attn_implementation="flex_attention")', "builtin", "flex_attention"),
            ('load(x, attn_implementation="flash_attention_3")', "name", "flash_attention_3"),
            ('load(x, attn_implementation="our_own_function")', "other", ""),
            ('load(x, attn_implementation="kernels-community/a/b")', "wrong", ""),
            ("load(x, attn_implementation=choose(x))", "not_read", ""),
            ('load(x, attn_implementation=f"me/k@{rev}")', "not_read", ""),
            (f'model.set_attn_implementation("{FLASH}@v3")', "version", f"{FLASH}@v3"),
            (f'config._attn_implementation = "{FLASH}@v3"', "version", f"{FLASH}@v3"),
            (f'kwargs["attn_implementation"] = "{FLASH}@v3"', "version", f"{FLASH}@v3"),
            (f'kwargs = {{"attn_implementation": "{FLASH}@v3"}}', "version", f"{FLASH}@v3"),
            (f'attn_implementation: str = "{FLASH}@v3"', "version", f"{FLASH}@v3"),
            (f'def f(x, *, attn_implementation="{FLASH}@v3"): ...', "version", f"{FLASH}@v3"),
            (f'p.add_argument("--attn_implementation", default="{FLASH}@v3")', "version", f"{FLASH}@v3"),
            (f'run(["x.py", "--attn_implementation", "{FLASH}@v3"])', "version", f"{FLASH}@v3"),
            (f'run(["x.py", "--attn-implementation={FLASH}@v3"])', "version", f"{FLASH}@v3"),
            (f'os.system("x.py --attn_implementation {FLASH}@v3 -v")', "version", f"{FLASH}@v3"),
            ('get_kernel("me/relu", version=2)', "version", "me/relu@v2"),
            ('get_kernel("me/relu", revision="v2")', "version", "me/relu@v2"),
            ('get_kernel("me/relu", "main")', "branch", "me/relu@main"),
            ('kernels.get_kernel("me/relu")', "unpinned", "me/relu"),
            ('get_kernel("me/relu", version=">=0.1,<0.2")', "not_read", ""),
            (f'get_kernel("me/relu", revision="{COMMIT}")', "commit", f"me/relu@{COMMIT}"),
            ('LayerRepository(repo_id="me/relu", layer_name="R", version=1)', "version", "me/relu@v1"),
            ('get_locked_kernel("me/relu", lockfile=None)', "locked", "me/relu"),
            ('KernelConfig({"RMSNorm": "me/norms@v1:Norm"})', "version", "me/norms@v1"),
            ('load(x, use_flash_attention_2=True)', "name", "flash_attention_2"),
            ('kwargs = {"use_flash_attention_2": True}', "name", "flash_attention_2"),
            ('load(x, use_flash_attention_2=wanted)', "not_read", ""),
            ('load(x, attn_implementation="flash_atention_2")', "wrong", ""),
            ('load(x, attn_implementation="SPDA")', "wrong", ""),
            ('load(x, attn_implementation="flash_attn")', "wrong", ""),
            ('load(x, attn_implementation="my_flash_attention_2")', "other", ""),
        ],
    )  # fmt: skip
    def test_a_way_of_asking(self, tmp_path: Path, line: str, kind: str, reference: str) -> None:
        pins = found(tmp_path, "a.py", f"# first\n{line}\n")
        assert [(p.line, p.kind, p.reference) for p in pins] == [(2, kind, reference)]
        assert pins[0].text == line

    @pytest.mark.parametrize(
        "text",
        [
            f'"""Use attn_implementation="{FLASH}"."""\n',
            f'# attn_implementation="{FLASH}"\n',
            "load(x, attn_implementation=None)\n",
            'cv2.get_kernel("gauss", 3)\n',
            "if config._attn_implementation == 'sdpa': pass\n",
            "def get_kernel(name): ...\n",
            'log(f"--attn_implementation {x}")\n',
            "load(x, use_flash_attention_2=False)\n",
        ],
    )
    def test_what_asks_for_nothing(self, tmp_path: Path, text: str) -> None:
        assert found(tmp_path, "a.py", text) == []

    def test_a_name_that_is_bound_once_is_followed_and_one_that_changes_is_not(self, tmp_path: Path) -> None:
        once = f'ATTN = "{FLASH}@v3"\nload(attn_implementation=ATTN)\n'
        assert short(found(tmp_path, "a.py", once)) == [(2, "version", f"{FLASH}@v3")]
        twice = f'ATTN = "{FLASH}@v3"\nif x:\n    ATTN = "sdpa"\nload(attn_implementation=ATTN)\n'
        assert short(found(tmp_path, "b.py", twice)) == [(4, "not_read", "")]
        shadowed = f'ATTN = "{FLASH}@v3"\ndef f(ATTN):\n    load(attn_implementation=ATTN)\n'
        assert short(found(tmp_path, "c.py", shadowed)) == [(3, "not_read", "")]

    @pytest.mark.parametrize(
        ("line", "trust", "call"),
        [
            ('get_kernel("me/k", version=1)', "withheld", ""),
            ('get_kernel("me/k", version=1, trust_remote_code=True)', "given", ""),
            ('get_kernel("me/k", version=1, trust_remote_code=["me/k"])', "given", ""),
            ('get_kernel("me/k", version=1, trust_remote_code=["me/other"])', "withheld", ""),
            ('get_kernel("me/k", version=1, trust_remote_code=flag)', "unknown", ""),
            ('get_kernel("me/k", version=1, **more)', "unknown", ""),
            ('get_kernel("me/k", revision="v1", version=1)', "withheld", "both"),
            ('get_kernel("me/k", "v1")', "withheld", "positional"),
            ('get_kernel("me/k", version="1")', "withheld", "text"),
            ('get_kernel("me/k", revision="v1", version=None)', "withheld", ""),
            ('M.from_pretrained(x, attn_implementation="me/k@v1")', "withheld", ""),
            ('M.from_pretrained(x, attn_implementation="me/k@v1", allow_all_kernels=True)', "given", ""),
            ('AutoConfig.from_pretrained(x, attn_implementation="me/k@v1")', "unknown", ""),
            ('kwargs = dict(attn_implementation="me/k@v1")', "unknown", ""),
        ],
    )
    def test_what_a_call_allows_and_what_may_be_refused_of_it(
        self, tmp_path: Path, line: str, trust: str, call: str
    ) -> None:
        (pin,) = found(tmp_path, "a.py", line)
        assert (pin.trust, pin.call) == (trust, call)
        assert pin.reader == ("kernels" if line.startswith("get_kernel") else "transformers")

    def test_a_name_that_the_code_registers_itself_is_no_slip(self, tmp_path: Path) -> None:
        (tmp_path / "a.py").write_text('load(x, attn_implementation="eager_")\nload(x, attn_implementation="ours")\n')
        assert [pin.kind for pin in search([str(tmp_path)]).pins] == ["wrong", "other"]
        (tmp_path / "b.py").write_text(
            'ALL_ATTENTION_FUNCTIONS["eager_"] = f\nAttentionInterface.register(\n    "ours", f)\n'
        )
        assert [pin.kind for pin in search([str(tmp_path)]).pins] == ["registered", "registered"]

    def test_each_branch_of_a_choice_and_each_part_of_a_model_counts(self, tmp_path: Path) -> None:
        text = f'load(attn_implementation="{FLASH}@v3" if cuda else "sdpa")\n'
        assert short(found(tmp_path, "a.py", text)) == [(1, "version", f"{FLASH}@v3"), (1, "builtin", "sdpa")]
        text = f'load(attn_implementation={{"text": "{FLASH}@v2",\n "vision": "eager"}})\n'
        assert short(found(tmp_path, "b.py", text)) == [(1, "version", f"{FLASH}@v2"), (2, "builtin", "eager")]

    def test_an_imported_get_kernel_is_known_under_another_name(self, tmp_path: Path) -> None:
        text = 'from kernels import get_kernel as gk\ngk("me/relu", version=1)\ngk(name)\n'
        assert short(found(tmp_path, "a.py", text)) == [(2, "version", "me/relu@v1"), (3, "not_read", "")]

    def test_what_is_no_python_is_named_and_costs_itself_only(self, tmp_path: Path) -> None:
        (tmp_path / "bad.py").write_text('load(attn_implementation="sdpa"\n')
        (tmp_path / "deep.py").write_text('attn_implementation="x/y"\n' + "(" * 5000 + ")" * 5000)
        (tmp_path / "good.py").write_text('load(attn_implementation="me/k@v1")\n')
        done = search([str(tmp_path)])
        assert [Path(file).name for file, _ in done.unread] == ["bad.py", "deep.py"]
        assert "no Python" in done.unread[0][1]
        assert [pin.reference for pin in done.pins] == ["me/k@v1"]


class TestOtherFiles:
    def test_yaml(self, tmp_path: Path) -> None:
        text = (
            "model:\n"
            f'  attn_implementation: "{FLASH}@v3"  # why\n'
            "  # attn_implementation: me/k@v1\n"
            "  - attn_implementation: sdpa\n"
            "  attn_implementation: ${attn}\n"
            "  attn_implementation: null\n"
            "  attn_implementation:\n"
            "    text_config: me/k@v2\n"
            "  attn_implementation: {a: me/k@v3, b: eager}\n"
            "  other: 1\n"
            f"  run: python x.py --attn_implementation {FLASH}@v2 --y\n"
        )
        assert short(found(tmp_path, "a.yaml", text)) == [
            (2, "version", f"{FLASH}@v3"), (4, "builtin", "sdpa"), (5, "not_read", ""), (8, "version", "me/k@v2"),
            (9, "version", "me/k@v3"), (9, "builtin", "eager"), (11, "version", f"{FLASH}@v2"),
        ]  # fmt: skip

    def test_json_and_its_parts(self, tmp_path: Path) -> None:
        text = f'{{\n "_attn_implementation": "{FLASH}@v3",\n "x": {{"attn_implementation": {{"a": "me/k@v1"}}}}\n}}\n'
        assert short(found(tmp_path, "config.json", text)) == [(2, "version", f"{FLASH}@v3"), (3, "version", "me/k@v1")]
        text = '{"args": ["--attn_implementation", "me/k@v1"]}\n// "attn_implementation": [\n'
        assert found(tmp_path, "launch.jsonc", text)[0].reference == ""
        assert found(tmp_path, "launch.jsonc", text)[1].reference == "me/k@v1"

    def test_shell_and_docker_and_toml(self, tmp_path: Path) -> None:
        text = (
            f'trl sft \\\n  --attn_implementation "{FLASH}@v3" \\\n  --x\n'
            "# --attn_implementation me/k\nx --attn-implementation=$A\n"
        )
        assert short(found(tmp_path, "run.sh", text)) == [(2, "version", f"{FLASH}@v3"), (5, "not_read", "")]
        assert short(found(tmp_path, "Dockerfile", "RUN x --attn_implementation=sdpa\n")) == [(1, "builtin", "sdpa")]
        assert short(found(tmp_path, "a.toml", "attn_implementation = 'me/k@v1'\n")) == [(1, "version", "me/k@v1")]
        flags = 'CMD ["x", "--attn_implementation", "me/k@v1"]\n'
        assert short(found(tmp_path, "Dockerfile", flags)) == [(1, "version", "me/k@v1")]
        manifest = 'args:\n  - train.py\n  - --attn_implementation\n  - "me/k@v1"  # why\n'
        assert short(found(tmp_path, "job.yaml", manifest)) == [(3, "version", "me/k@v1")]

    def test_the_locks_and_the_table_of_kernels(self, tmp_path: Path) -> None:
        lock = [
            {"dependency": {"repo-id": "me/relu", "version": 1}, "lock": {"commit": COMMIT}},
            {"repo_id": "me/old", "sha": COMMIT[::-1], "variants": {}},
        ]
        pins = found(tmp_path, "kernels.lock", json.dumps(lock, indent=1))
        assert [(p.kind, p.reference) for p in pins] == [
            ("commit", f"me/relu@{COMMIT}"), ("commit", f"me/old@{COMMIT[::-1]}"),
        ]  # fmt: skip
        assert pins[0].line == 8
        assert "kernels 0.17 refuses" in pins[1].why
        table = '[project]\nname = "x"\n[tool.kernels.dependencies]\n"me/relu" = 1\n"me/gelu" = ">=0.1"\n'
        assert short(found(tmp_path, "pyproject.toml", table)) == [(4, "version", "me/relu@v1"), (5, "not_read", "")]

    def test_a_lock_of_another_form_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "kernels.lock").write_text("{}")
        (tmp_path / "kerneldoctor.lock").write_text('{"schema": "kerneldoctor.lock/99"}')
        (tmp_path / "cut").mkdir()
        (tmp_path / "cut" / "kerneldoctor.lock").write_text('{"schema": "kerneldoctor.lock/1", "entr')
        done = search([str(tmp_path)])
        broken = {pin.file: (pin.line, pin.kind, pin.why) for pin in done.pins}
        assert broken[str(tmp_path / "kernels.lock")] == (1, "broken", "it holds no list of locked kernels")
        assert "lock/99" in broken[str(tmp_path / "kerneldoctor.lock")][2]
        assert broken[str(tmp_path / "cut" / "kerneldoctor.lock")][:2] == (1, "broken")
        assert done.unread == ()

    def test_a_notebook_that_is_cut_off_is_not_read_even_where_what_is_left_names_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "cut.ipynb").write_text('{"cells": [{"cell_type": "code", "source": ["x = 1')
        (tmp_path / "whole.ipynb").write_text('{"cells": []}\n')
        (tmp_path / "empty.ipynb").write_text("")
        assert [Path(file).name for file, _ in search([str(tmp_path)]).unread] == ["cut.ipynb"]

    def test_a_file_whose_name_holds_a_line_break_is_looked_into(self, tmp_path: Path) -> None:
        (tmp_path / "two\nlines.py").write_text(f'load(attn_implementation="{FLASH}@v3")\n')
        assert [pin.reference for pin in search([str(tmp_path)]).pins] == [f"{FLASH}@v3"]

    def test_cells_of_a_notebook_with_the_line_in_the_file(self, tmp_path: Path) -> None:
        cells = [
            {"cell_type": "markdown", "source": ['attn_implementation="me/no@v1"']},
            {"cell_type": "code", "source": ["%pip install x\n", "!x --attn_implementation me/k@v1\n", "y = 1\n",
                                             'load(attn_implementation="me/k@v2")\n']},
            {"cell_type": "code", "source": "%%bash\nx --attn_implementation me/k@v3\n"},
        ]  # fmt: skip
        text = json.dumps({"cells": cells, "nbformat": 4}, indent=1)
        pins = found(tmp_path, "a.ipynb", text)
        assert [pin.reference for pin in pins] == ["me/k@v1", "me/k@v2", "me/k@v3"]
        assert all(pin.reference in text.splitlines()[pin.line - 1] for pin in pins)
        assert pins[1].place == "attn_implementation, cell 2"

    @pytest.mark.parametrize("text", ['{"cells": 1, "x": "attn_implementation"}', "attn_implementation", "[" * 100000])
    def test_what_is_no_notebook_is_named(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "a.ipynb").write_text(f"{text} attn_implementation" if text[0] == "[" else text)
        assert "no notebook" in search([str(tmp_path)]).unread[0][1]


class TestWhereIsLooked:
    @pytest.fixture
    def tree(self, tmp_path: Path) -> Path:
        pin = 'load(attn_implementation="me/k@v1")\n'
        for name in ("src/a.py", "node_modules/b.py", "out/c.py", "venv2/d.py", "sub/e.py", "docs/readme.md", "f.py"):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(pin)
        (tmp_path / "venv2/pyvenv.cfg").touch()
        (tmp_path / "sub/.git").write_text("gitdir: ../.git/modules/sub\n")
        (tmp_path / "link.py").symlink_to(tmp_path / "f.py")
        (tmp_path / "huge.py").write_text(pin + "#" * (3 * 2**20))
        (tmp_path / "binary.py").write_bytes(b"\0" + pin.encode())
        (tmp_path / ".gitignore").write_text("out/\nf.py\n")
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
        return tmp_path

    def files(self, done: Search, root: Path) -> list[str]:
        return sorted(str(Path(pin.file).relative_to(root)) for pin in done.pins)

    def test_what_is_passed_over_is_counted(self, tree: Path) -> None:
        done = search([str(tree)])
        assert self.files(done, tree) == ["src/a.py"]
        assert done.skipped == {
            "folders that others wrote or a tool made": 3, "ignored by git": 2, "links": 1,
            "larger than a source file": 1, "no text": 1,
        }  # fmt: skip

    def test_a_file_that_is_named_is_read_whatever_git_says(self, tree: Path) -> None:
        assert self.files(search([str(tree / "f.py"), str(tree / "f.py")]), tree) == ["f.py"]
        assert self.files(search([str(tree / "out")]), tree) == ["out/c.py"]

    def test_a_path_that_is_not_there_is_wrong_use(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="no such file or folder"):
            search([str(tmp_path / "nothing")])

    def test_what_cannot_be_read_is_named(self, tmp_path: Path) -> None:
        import os

        os.mkfifo(tmp_path / "a.py")
        assert "named pipe" in search([str(tmp_path)]).unread[0][1]


class TestHostileTexts:
    """What one file of two megabytes can cost: a quarter of an hour where reading is not linear."""

    @pytest.mark.parametrize(
        ("name", "piece"),
        [
            ("a.py", "attn_implementation"),
            ("b.py", 'attn_implementation="me/k@v1";'),
            ("a.json", '"attn_implementation":"me/k@v1",'),
            ("b.json", '{"attn_implementation":'),
            ("a.yaml", "attn_implementation:\n"),
            ("a.sh", '--attn_implementation "'),
            ("kernels.lock", "attn_implementation"),
        ],
    )
    def test_a_file_that_says_one_thing_again_and_again(self, tmp_path: Path, name: str, piece: str) -> None:
        (tmp_path / name).write_text(piece * (200_000 // len(piece)))
        start = time.monotonic()
        search([str(tmp_path)])
        assert time.monotonic() - start < 30

    def test_a_notebook_whose_lines_are_spelt_in_a_way_of_their_own(self, tmp_path: Path) -> None:
        source = "x = 1\n" * 20_000 + 'load(attn_implementation="me/k@v1")\n'
        spelt = "".join(f"\\u{ord(letter):04x}" for letter in source)
        cells = f'"cells": [{{"cell_type": "code", "source": "{spelt}"}}]}}'
        (tmp_path / "a.ipynb").write_text("{" + cells)
        assert search([str(tmp_path)]).pins == ()  # the literal is not in the file: it is not opened
        (tmp_path / "b.ipynb").write_text('{"attn_implementation": 1, ' + cells)
        assert [pin.reference for pin in search([str(tmp_path)]).pins] == ["me/k@v1"]


def test_the_hook_of_pre_commit_passes_the_files_that_are_read() -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")
    pattern = re.compile(re.search(r"^  files: (.*)$", text, re.MULTILINE)[1])  # type: ignore[index]
    names = ["a.py", "a.ipynb", "a.yml", "a.yaml", "config.json", "pyproject.toml", "run.sbatch", "Dockerfile",
             "Dockerfile.gpu", "Makefile", "kernels.lock", "kerneldoctor.lock", ".env", "x.env", "README.md", "a.so",
             "poetry.lock", "a.pyc"]  # fmt: skip
    for name in names:
        assert bool(pattern.search(f"some/{name}")) is bool(_READ.fullmatch(name)), name
        assert bool(pattern.search(name)) is bool(_READ.fullmatch(name)), name
