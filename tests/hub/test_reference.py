"""What people type and paste, read as transformers would read it, or refused in one clear line."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kerneldoctor.errors import UsageError
from kerneldoctor.hub.reference import Kind, Reference, parse_reference

SHA = "239bb21bd566f598d7e2228eab9788b0a9239b2d"
# The pattern by which transformers 5.0 to 5.24 tells a kernel from other attention names.
IS_KERNEL = re.compile(r"^[^/:]+/[^/:]+(?:@[^/:]+)?(?::[^/:]+)?$")


@pytest.mark.parametrize(
    ("text", "repo", "revision", "function"),
    [
        ("kernels-community/flash-attn2", "kernels-community/flash-attn2", None, None),
        ("kernels-community/flash-attn2@v3", "kernels-community/flash-attn2", "v3", None),
        (f"kernels-community/flash-attn2@{SHA}", "kernels-community/flash-attn2", SHA, None),
        ("me/my_kernel.x@release-1:attn", "me/my_kernel.x", "release-1", "attn"),
        ("me/k:flash_attn_func", "me/k", None, "flash_attn_func"),
        (" me/k @ v2 : attn ", "me/k", "v2", "attn"),  # transformers strips each part
        ("me/k@a@b", "me/k", "a@b", None),  # and cuts at the first @
        ("me/k@main", "me/k", "main", None),
    ],
)
def test_a_repository_with_what_may_follow(text: str, repo: str, revision: str | None, function: str | None) -> None:
    assert parse_reference(text) == Reference(Kind.KERNEL, repo, revision, function)


def test_a_version_is_a_branch_and_a_commit_is_a_pin() -> None:
    branch, pin = parse_reference("me/k@v12"), parse_reference(f"me/k@{SHA}")
    assert (branch.version, branch.is_pinned) == (12, False)
    assert (pin.version, pin.is_pinned) == (None, True)


@pytest.mark.parametrize(
    ("text", "kind", "name", "paged"),
    [
        ("sdpa", Kind.BUILTIN, "sdpa", False),
        ("eager", Kind.BUILTIN, "eager", False),
        ("flex_attention", Kind.BUILTIN, "flex_attention", False),
        ("paged|eager", Kind.BUILTIN, "eager", True),
        ("flash_attention_2", Kind.FLASH_ATTENTION, "flash_attention_2", False),
        ("paged|flash_attention_3", Kind.FLASH_ATTENTION, "flash_attention_3", True),
        ("paged|me/k@v1", Kind.KERNEL, "me/k", True),
    ],
)
def test_names_that_are_no_repository_and_the_old_prefix(text: str, kind: Kind, name: str, paged: bool) -> None:
    found = parse_reference(text)
    assert (found.kind, found.name, found.paged) == (kind, name, paged)
    assert found.repo == (name if kind is Kind.KERNEL else None)
    assert found.generation == (int(name[-1]) if kind is Kind.FLASH_ATTENTION else None)


@pytest.mark.parametrize(
    ("pasted", "meant"),
    [
        ("https://huggingface.co/kernels/kernels-community/flash-attn2", "kernels-community/flash-attn2"),
        ("https://huggingface.co/kernels/me/k/tree/v3/build/torch-cuda", "me/k@v3"),
        ("https://huggingface.co/me/k/tree/main?not-for-all-audiences=true#x", "me/k@main"),
        (f"http://hf.co/kernels/me/k/commit/{SHA}", f"me/k@{SHA}"),
        ("huggingface.co/kernels/me/k/", "me/k"),
        ("https://huggingface.co/kernels/me/k/discussions/4", "me/k"),
        ("kernels/me/k", "me/k"),
        ("kernels/me/k/tree/v1", "me/k@v1"),
        ('attn_implementation="me/k@v3"', "me/k@v3"),
        ("attn_implementation='sdpa',", "sdpa"),
        ('"attn_implementation": "me/k"', "me/k"),
        ("--attn_implementation me/k@v1", "me/k@v1"),
        ("--attn-implementation=me/k@v1", "me/k@v1"),
        ("attn_implementation: flash_attention_2", "flash_attention_2"),
        ('AutoModel.from_pretrained("a/b", attn_implementation="me/k:f")', "me/k:f"),
        ('kernel = get_kernel("me/k", version=2)', "me/k@v2"),
        ("get_kernel('me/k', revision='main', trust_remote_code=True)", "me/k@main"),
        ('get_kernel("me/k")', "me/k"),
        ('get_kernel(\n    "me/k",\n    version=4,\n)', "me/k@v4"),
        ('attn_implementation="https://huggingface.co/kernels/me/k/tree/v2"', "me/k@v2"),
    ],
)
def test_what_was_pasted_is_used_and_explained(pasted: str, meant: str) -> None:
    found = parse_reference(pasted)
    assert str(found) == meant
    assert meant in found.notes[-1]


@pytest.mark.parametrize("text", ["  me/k@v1\n", '"me/k@v1"', "`me/k@v1`", "\u201cme/k@v1\u201d", "'me/k@v1',"])
def test_blanks_and_quotes_need_no_words(text: str) -> None:
    found = parse_reference(text)
    assert (str(found), found.notes) == ("me/k@v1", ())


@pytest.mark.parametrize(
    ("text", "revision", "note"),
    [
        ("me/k@239bb21", "239bb21", "all its 40 digits"),
        ("me/k@3", "3", "@v3"),
        ("me/k@V3", "V3", "@v3"),
        ("me/k@", None, "nothing follows"),
        (f"me/k@{SHA.upper()}", SHA, "lower case"),
    ],
)
def test_revisions_that_are_not_what_they_look_like_are_said_to_be(text: str, revision: str, note: str) -> None:
    found = parse_reference(text)
    assert found.revision == revision
    assert note in found.notes[0]


@pytest.mark.parametrize(
    ("text", "help_"),
    [
        ("", "owner/name@revision"),
        ('""', "owner/name@revision"),
        ("flash-attn2", "flash_attention_2"),
        ("FA3", "flash_attention_3"),
        ("flash_attention_5", "flash_attention_4"),
        ("flash_attention_2@v3", "only a repository"),
        ("sdpa:f", "neither"),
        ("activation", "a kernel is owner/name"),
        ("me/", "owner/name"),
        ("me/k@refs/pr/1", "commit"),
        ("https://huggingface.co/kernels/me/k/tree/refs%2Fpr%2F1", "commit"),
        ("me/k:f:g", "one :function"),
        ("me/k:", "function"),
        ("me/k:not-a-name", "function"),
        ("me/k@a..b", "no branch"),
        ("me/k@with space", "no branch"),
        ("me/k--x", "'--'"),
        ("-me/k", "letters"),
        ("m e/k", "letters"),
        ("m@e/k", "owner/name"),
        ("\u0438\u043c\u044f/k", "letters"),
        (f"me/{'k' * 97}", "96"),
        ("other|me/k", "paged"),
        ("paged|paged|me/k", "once"),
        ("./kernels/build", "folder"),
        ("/home/me/k", "folder"),
        ("C:\\kernels\\k", "owner/name"),
        ("https://github.com/huggingface/kernels", "no page of the Hub"),
        ("https://huggingface.co/datasets/me/k", "no page of a kernel"),
        ("https://huggingface.co/kernels/me", "no page of a kernel"),
        ("https://[", "no address"),
        ("x/" * 600, "at most 1000"),
    ],
)
def test_everything_else_is_refused_with_a_way_to_mend_it(text: str, help_: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_reference(text)
    line = str(caught.value)
    assert help_ in line
    assert "\n" not in line
    assert len(line) < 320


words = st.from_regex(r"[a-z0-9](?:[a-z0-9_.]{0,6}[a-z0-9])?", fullmatch=True).filter(
    lambda w: ".." not in w and not w.endswith((".git", ".lock"))
)
revisions = st.one_of(st.none(), words, st.from_regex(r"v[0-9]{1,3}", fullmatch=True), st.just(SHA))
kernels = st.builds(
    Reference,
    st.just(Kind.KERNEL),
    st.builds("{}/{}".format, words.filter(lambda w: w != "kernels"), words),
    revisions,
    st.one_of(st.none(), st.sampled_from(["attn", "flash_attn_varlen_func", "_f1"])),
    st.booleans(),
)
plain = st.builds(
    lambda kind_name, paged: Reference(*kind_name, paged=paged),
    st.sampled_from([(Kind.BUILTIN, "sdpa"), (Kind.BUILTIN, "eager"), (Kind.FLASH_ATTENTION, "flash_attention_4")]),
    st.booleans(),
)


@given(st.one_of(kernels, plain))
def test_printing_is_the_inverse_of_reading(reference: Reference) -> None:
    assert parse_reference(str(reference)) == reference


@given(st.one_of(st.text(max_size=40), st.text("ab/@:|. v3-_\"'=()\t\\", max_size=25)))
@example("attn_implementation=" * 2)
@example("get_kernel('")
@example("https://hf.co/%00/%00/tree/%")
def test_any_text_is_a_reference_or_one_clear_line(text: str) -> None:
    try:
        found = parse_reference(text)
    except UsageError as error:
        line = str(error)
    else:
        line = str(found)
        assert parse_reference(line) == found
    assert "\n" not in line


@given(st.text("ab/@:|. v3-_", max_size=25))
def test_a_name_that_is_read_means_the_same_to_transformers(text: str) -> None:
    try:
        found = parse_reference(text)
    except UsageError:
        return
    if found.kind is Kind.KERNEL:
        assert transformers_reads(str(found)) == (found.name, found.revision, found.function)


def transformers_reads(text: str) -> tuple[str, str | None, str | None]:
    """The steps of `load_and_register_attn_kernel` in transformers 5.24.0, so far as they cut the text."""
    name = text.split("|")[1] if "|" in text else text
    assert IS_KERNEL.search(name)
    repo, _, function = name.partition(":")
    repo, _, revision = repo.strip().partition("@")
    return repo.strip(), revision.strip() or None, function.strip() or None


@given(st.text("ab/@:v3- ", max_size=20))
def test_what_transformers_takes_for_a_kernel_is_one_or_could_never_load(text: str) -> None:
    """We refuse no name that transformers could load: only those that huggingface_hub or git would refuse later."""
    if not IS_KERNEL.search(text.strip()):
        return
    repo, revision, function = transformers_reads(text.strip())
    loadable = re.fullmatch(r"[a-z0-9](?:[\w-]*\w)?/\w(?:[\w-]*\w)?", repo) and "--" not in repo
    if loadable and not re.search(r"[/ ]|^-", revision or "") and (function is None or function.isidentifier()):
        found = parse_reference(text)
        assert (found.name, found.revision, found.function) == (repo, revision, function)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("flash-attn2", "did you mean kernels-community/flash-attn2"),
        ("flash_attn", "kernels-community/flash-attn2"),
        ("fa2", "did you mean flash_attention_2"),
        ("fa3", "did you mean flash_attention_3"),
        ("FlashAttention2", "did you mean flash_attention_2"),
        ("flash-attention-2", "did you mean flash_attention_2"),
        ("Flash_Attention_2", "did you mean flash_attention_2"),
        ("kernels-community/relu==1", "kernels-community/relu@v1"),
        ("kernels-community/relu#v1", "kernels-community/relu@v1"),
    ],
)
def test_what_people_type_is_refused_with_what_they_mean(text: str, meant: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_reference(text)
    assert meant in str(caught.value)


def test_a_function_that_looks_like_a_version_is_said_to_be_one() -> None:
    found = parse_reference("kernels-community/relu:v1")
    assert (found.function, found.revision) == ("v1", None)
    assert "version 1 is written @v1" in found.notes[0]
