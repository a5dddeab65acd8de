"""Secrets are taken out of what a server echoes, however they are encoded and wherever chunks are cut."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.effects.redaction import Redactor, redact
from core.effects.renderings import renderings

SECRET = 'sk-Ab3/+=&<"\\ é€😀%41~'
LABEL = b"[redacted:token]"


def all_percent(text: str) -> bytes:
    return "".join(f"%{byte:02x}" for byte in text.encode()).encode()


def json_units(text: str, form: str = "04x") -> bytes:
    units = text.encode("utf-16-be").hex()
    return "".join(f"\\u{int(units[i : i + 4], 16):{form}}" for i in range(0, len(units), 4)).encode()


def every_other(text: str) -> bytes:
    """Escaped by turns, as lenient encoders leave it."""
    return b"".join(all_percent(c) if i % 2 else c.encode() for i, c in enumerate(text))


WHOLE: dict[str, Callable[[str], bytes]] = {
    "raw": lambda s: s.encode(),
    "percent": lambda s: quote(s, safe="").encode(),
    "percent lower": lambda s: "".join(q.lower() if q[0] == "%" else q for q in map(quote_plus, s)).encode(),
    "percent with slashes": lambda s: quote(s).encode(),
    "plus": lambda s: quote_plus(s).encode(),
    "all percent": all_percent,
    "all percent upper": lambda s: "".join(f"%{b:02X}" for b in s.encode()).encode(),
    "some percent": every_other,
    "json": lambda s: json.dumps(s)[1:-1].encode(),
    "json utf-8": lambda s: json.dumps(s, ensure_ascii=False)[1:-1].encode(),
    "json slashes": lambda s: json.dumps(s)[1:-1].replace("/", "\\/").encode(),
    "json units": json_units,
    "json units upper": lambda s: json_units(s, "04X"),
    "html": lambda s: html.escape(s).encode(),
    "html no quotes": lambda s: html.escape(s, quote=False).encode(),
    "html decimal": lambda s: "".join(f"&#{ord(c)};" for c in s).encode(),
    "html decimal bare": lambda s: "".join(f"&#{ord(c)}" for c in s).encode(),
    "html padded": lambda s: "".join(f"&#{ord(c):06};" for c in s).encode(),
    "html hex": lambda s: "".join(f"&#x{ord(c):x};" for c in s).encode(),
    "html hex upper": lambda s: "".join(f"&#X{ord(c):X};" for c in s).encode(),
    "html ascii": lambda s: html.escape(s).encode("ascii", "xmlcharrefreplace"),
    "hex": lambda s: s.encode().hex().encode(),
    "hex upper": lambda s: s.encode().hex().upper().encode(),
    "hex colons": lambda s: s.encode().hex(":").encode(),
    "hex blanks": lambda s: s.encode().hex(" ").encode(),
    "javascript braces": lambda s: "".join(f"\\u{{{ord(c):x}}}" for c in s).encode(),
    "javascript braces padded": lambda s: "".join(f"\\u{{{ord(c):06X}}}" for c in s).encode(),
    "python units": lambda s: "".join(f"\\U{ord(c):08x}" for c in s).encode(),
    "python ascii": lambda s: ascii(s)[1:-1].encode(),
    "hex escapes": lambda s: "".join(f"\\x{b:02x}" for b in s.encode()).encode(),
}

# A secret made of the label's own characters may stand in the label.
secrets = st.text(min_size=8, max_size=20).filter(lambda secret: not set(secret) <= set("[]:redacton"))


def in_pieces(data: bytes, cuts: list[int], values: dict[str, str]) -> bytes:
    redactor = Redactor(values)
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return b"".join(redactor.feed(data[a:b]) for a, b in pairwise(places)) + redactor.flush()


def at_every_cut(data: bytes, values: dict[str, str]) -> set[bytes]:
    return {in_pieces(data, [cut], values) for cut in range(len(data) + 1)}


@pytest.mark.parametrize("encoding", WHOLE)
@pytest.mark.parametrize("secret", [SECRET, "abcdefgh", "0123456789", "sk-ant-api03-AAAAbbbb_CCCC", "päss wörd 'x'"])
def test_a_secret_is_found_in_each_encoding_at_every_cut(encoding: str, secret: str) -> None:
    data = b'{"a": "' + WHOLE[encoding](secret) + b'", "b": 1}'
    assert at_every_cut(data, {"token": secret}) == {b'{"a": "' + LABEL + b'", "b": 1}'}


@pytest.mark.parametrize("encoding", WHOLE)
def test_a_secret_fed_byte_by_byte_is_found(encoding: str) -> None:
    data = b"<" + WHOLE[encoding](SECRET) + b">" + WHOLE[encoding](SECRET)
    assert in_pieces(data, list(range(len(data))), {"token": SECRET}) == b"<" + LABEL + b">" + LABEL


@given(
    secrets, st.sampled_from(sorted(WHOLE)), st.binary(max_size=30), st.binary(max_size=30), st.lists(st.integers(0))
)
def test_no_whole_rendering_is_left(secret: str, encoding: str, before: bytes, after: bytes, cuts: list[int]) -> None:
    data = before + WHOLE[encoding](secret) + after
    out = in_pieces(data, cuts, {"token": secret})
    assert LABEL in out
    assert out == redact(data, {"token": secret})
    for encode in WHOLE.values():
        assert encode(secret) not in out


@given(secrets, st.binary(max_size=7), st.binary(max_size=7), st.booleans(), st.booleans(), st.lists(st.integers(0)))
def test_base64_is_found_at_any_alignment_in_both_alphabets(
    secret: str, before: bytes, after: bytes, urlsafe: bool, padded: bool, cuts: list[int]
) -> None:
    raw = secret.encode()
    coded = (base64.urlsafe_b64encode if urlsafe else base64.b64encode)(before + raw + after)
    data = b"x: " + (coded if padded else coded.rstrip(b"=")) + b" ;"
    out = in_pieces(data, cuts, {"token": secret})
    assert out == redact(data, {"token": secret})
    assert LABEL in out
    # Of the Base64 text only what encodes other bytes is left: those before, those after, and padding.
    head, _, tail = out.removeprefix(b"x: ").removesuffix(b" ;").partition(LABEL)
    assert len(head) <= -(-len(before) * 8 // 6)
    assert len(tail.rstrip(b"=")) <= -(-len(after) * 8 // 6)


@pytest.mark.parametrize("user", ["", "a", "me", "bob"])
def test_basic_authorization_is_found(user: str) -> None:
    value = base64.b64encode(f"{user}:{SECRET}".encode())
    out = redact(b"Authorization: Basic " + value, {"token": SECRET})
    assert LABEL in out
    assert out.startswith(b"Authorization: Basic " + value[: len(user) + 1])


def test_base64_wrapped_into_lines_is_found() -> None:
    wrapped = base64.encodebytes(
        b"some words before it, so that a line ends within: " + SECRET.encode() + b" and " + SECRET.encode()
    )
    for data in (wrapped, wrapped.replace(b"\n", b"\r\n"), json.dumps(wrapped.decode()).encode()):
        assert redact(data, {"token": SECRET}).count(LABEL) == 2


def test_base64_in_a_query_or_in_json_is_found() -> None:
    secret = "~~~???>>>~~~"
    coded = base64.b64encode(secret.encode()).decode()
    assert "+" in coded
    assert "/" in coded
    for data in (quote(coded, safe=""), coded.replace("/", "\\/"), coded.replace("+", "\\u002b")):
        assert redact(data.encode(), {"token": secret}) == LABEL


def test_rendered_formats_keep_what_is_not_secret() -> None:
    assert redact(b"Bearer abcdefgh12", {"token": "abcdefgh12"}) == b"Bearer " + LABEL


@given(st.binary(max_size=300), st.lists(st.integers(0)))
def test_bytes_without_a_secret_pass_unchanged(data: bytes, cuts: list[int]) -> None:
    assert in_pieces(data, cuts, {"token": SECRET, "other": "another secret"}) == data


@given(st.lists(st.sampled_from([b"abcd", b"efgh", b"ijkl", b"%61", b"YWJjZGVmZ2g", b"x", b"&", b"\\u0061"])))
def test_near_misses_come_out_the_same_however_they_are_cut(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    values = {"a": "abcdefgh", "b": "efghijkl"}
    assert len(at_every_cut(data, values)) == 1


def test_the_longer_of_two_secrets_at_one_place_gives_the_name() -> None:
    assert redact(b"x abcdefghij y", {"short": "abcdefgh", "long": "abcdefghij"}) == b"x [redacted:long] y"


def test_secrets_that_overlap_are_both_taken_out_whole() -> None:
    values = {"a": "abcdefgh", "b": "efghijkl"}
    assert at_every_cut(b"--abcdefghijkl--", values) == {b"--[redacted:a]--"}


def test_secrets_side_by_side_are_both_named() -> None:
    values = {"a": "abcdefgh", "b": "ijklmnop"}
    assert redact(b"abcdefghijklmnop", values) == b"[redacted:a][redacted:b]"


def test_a_label_never_shows_the_secret() -> None:
    assert redact(b"x password1 y", {"password1": "password1"}) == b"x [redacted] y"
    assert redact(b"x redacted y", {"a": "redacted"}) == b"x *** y"


def test_what_is_held_back_is_bounded() -> None:
    redactor = Redactor({"token": SECRET})
    given_out = sum(len(redactor.feed(b"x" * 100)) for _ in range(1_000))
    assert given_out > 100_000 - 2_000
    assert len(redactor.flush()) == 100_000 - given_out


def test_a_redactor_can_be_used_again_after_a_flush() -> None:
    redactor = Redactor({"token": "abcdefgh"})
    assert redactor.feed(b"abcd") + redactor.flush() == b"abcd"
    assert redactor.feed(b"efgh") + redactor.flush() == b"efgh"


@pytest.mark.parametrize("secret", ["", "1234567", "€€€€€€€"])
def test_a_secret_under_eight_characters_cannot_be_bound(secret: str) -> None:
    with pytest.raises(ValueError, match="cannot be bound"):
        Redactor({"token": secret})
    with pytest.raises(ValueError, match="cannot be bound") as caught:
        redact(b"", {"token": secret})
    assert not secret or secret not in str(caught.value)


def test_without_secrets_everything_passes_at_once() -> None:
    assert Redactor({}).feed(b"abc") == b"abc"


def test_its_repr_names_secrets_and_shows_none() -> None:
    assert repr(Redactor({"token": SECRET})) == "Redactor(token)"


@given(
    st.sampled_from(["a" * 90, "ab" * 45, "abc" * 30 + "a", "a" * 89 + "b", "6%" * 45, "é" * 45]),
    st.lists(st.tuples(st.integers(0, 90), st.sampled_from(["", "b", "a", "%", " ", "\n"])), max_size=8),
    st.lists(st.integers(0, 700), max_size=4),
)
def test_a_secret_that_repeats_itself_is_found_among_near_misses_of_it(
    secret: str, pieces: list[tuple[int, str]], cuts: list[int]
) -> None:
    data = "".join(secret[:length] + after for length, after in pieces).encode()
    assert in_pieces(data, cuts, {"k": secret}) == data.replace(secret.encode(), b"[redacted:k]")


def test_a_secret_that_repeats_itself_is_found_where_it_is_escaped_in_part() -> None:
    data = b"a" * 89 + b"b" + b"a" * 83 + b"%61" * 9
    assert redact(data, {"k": "a" * 90}) == b"a" * 89 + b"b[redacted:k]%61%61"


def test_a_near_miss_of_a_secret_that_repeats_itself_is_passed_over_at_once() -> None:
    characters, *_ = renderings("a" * 16_384)
    miss = b"a" * 16_383 + b"b"
    assert characters._runs.after(miss * 2, 0) == 16_384
    assert characters._runs.after(b"a" * 16_383, 0) == 16_383
    assert characters._runs.after(b"a" * 100 + b"%61" + b"a" * 16_383, 0) == 1  # it may go on escaped
    assert renderings("ab" * 50)[0]._runs.after(b"ab" * 49 + b"aab", 0) == 99
