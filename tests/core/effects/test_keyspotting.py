"""What is taken for a key among a person's words, and what is not."""

from __future__ import annotations

import base64
import hashlib
import string
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.effects.keyspotting import mask, screen, spot

# Put together here, so that no file holds anything shaped like a key.
ANTHROPIC = "sk-" + "ant-api03-Ab12Cd34Ef56Gh78Ij90-Kl_mN"
AWS_ID = "AKIA" + "IOSFODNN7ABCDEFG"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG" + "/bPxRfiCYABCDEFGHIJ"
PEM = (
    "-----BEGIN RSA PRIVATE"
    + " KEY-----\n"
    + f"{'MIIEowIBAAKCAQEA7bq1' * 3}\n" * 4
    + "-----END RSA PRIVATE"
    + " KEY-----"
)
KEYS = {
    "anthropic key": ANTHROPIC,
    "openai key": "sk-" + "proj-abcdefghijklmnopqrstuvwx12345",
    "openrouter key": "sk-" + "or-v1-0123456789abcdef0123456789abcdef",
    "api key": "sk-" + "abcdefghij1234567890ABCDEF",
    "github token": "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789",
    "gitlab token": "glpat-" + "aBcDeFgHiJkLmNoPqRsT",
    "aws access key": AWS_ID,
    "slack token": "xoxb-" + "123456789012-abcdefGHIJKL",
    "google key": "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    "stripe key": "sk_live_" + "abcdefghijklmnopqrstuvwx",
    "hugging face token": "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "json web token": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jK7RmHnDTu",
    "private key": PEM,
}


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_is_known_by_its_shape_and_masked_whole(kind: str) -> None:
    text = f"Here it is: {KEYS[kind]}, keep it."
    assert [one.kind for one in spot(text)] == [kind]
    assert mask(text, spot(text)) == f"Here it is: [redacted: {kind}], keep it."


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("WEATHER_API_KEY=0123456789abcdef0123456789abcdef", "WEATHER_API_KEY=[redacted: api key]"),
        ('"client_secret": "a1B2c3D4e5F6g7H8"', '"client_secret": "[redacted: secret]"'),
        ("my api key is 8f14e45f-ceea-467a-9575-2b1b1c2d3e4f.", "my api key is [redacted: api key]."),
        ("the token: 7f3Kd9sLq2Wz8Xc4Vb6Nm1", "the token: [redacted: token]"),
        ("DB_PASSWORD=hunter2hunter2", "DB_PASSWORD=[redacted: password]"),
        ("password: S3cr3t!pass", "password: [redacted: password]"),
        ("Authorization: Bearer abcdef0123456789xyz", "Authorization: Bearer [redacted: bearer authorization]"),
        (
            "-H 'Authorization: Basic dXNlcjpwYXNzd29yZDEyMw=='",
            "-H 'Authorization: Basic [redacted: basic authorization]'",
        ),
        ("postgres://bob:hunter22@db.example.com/x", "postgres://bob:[redacted: password in a url]@db.example.com/x"),
        (f"{AWS_ID} {AWS_SECRET}", "[redacted: aws access key] [redacted: aws secret key]"),
    ],
)
def test_a_value_is_known_by_the_words_before_it(text: str, masked: str) -> None:
    assert mask(text, spot(text)) == masked


@pytest.mark.parametrize(
    "text",
    [
        "OPENAI_API_KEY=" + "sk-...",
        "ANTHROPIC_API_KEY=your-key-here-please1",
        'api_key = os.environ["OPENAI_API_KEY"]',
        "token = get_token2(user1)",
        "secret = hashlib.sha256(x)",
        "password = user2.password",
        "max_tokens: 4096000000",
        "the token limit is 200000",
        "the primary key is user_id_0001_account",
        "a password reset-link-2024-01-15-v2-b3",
        "sk-" + "learn-pipeline-extension-package",
        "Bearer authentication-mechanism-is-used",
        "secret: ${{ secrets.DEPLOY_TOKEN }}",
        "password=/run/secrets/db_password1",
        "api key: https://console.example.com/keys/12ab34cd56ef",
        "AWS_KEY=" + AWS_ID[:-7] + "EXAMPLE",
        "sk-" + "ant-" + "x" * 24,
        "the cache key 3f786850e387550fdab836ed7e6dc881de23001b",
        "look for -----BEGIN PRIVATE" + " KEY----- in the files",
        "https://example.com/list?page_token=CAUQAA12345678901&limit=10",
    ],
)
def test_placeholders_code_and_ordinary_words_are_no_keys(text: str) -> None:
    assert spot(text) == []


@given(st.binary(max_size=64))
def test_digests_are_no_keys(data: bytes) -> None:
    for name in ("md5", "sha1", "sha256", "sha512"):
        digest = hashlib.new(name, data).hexdigest()
        assert spot(digest) == []
        assert spot(f"{name}:{digest} is the digest, the key {digest} and the token {digest}") == []


@given(st.uuids(), st.sampled_from(["{}", "id: {}", "the key {}", '"token": "{}"']))
def test_uuids_are_no_keys(value: uuid.UUID, around: str) -> None:
    assert spot(around.format(value)) == []


_SEGMENT = st.text(string.ascii_letters + string.digits + "-_.", min_size=1, max_size=40)


@given(st.lists(_SEGMENT, max_size=6), st.dictionaries(st.sampled_from(["q", "page", "id", "v"]), _SEGMENT, max_size=3))
def test_addresses_are_no_keys(path: list[str], query: dict[str, str]) -> None:
    url = "https://www.example.com/" + "/".join(path) + "?" + "&".join(f"{k}={v}" for k, v in query.items())
    assert spot(f"see {url} for more") == []


@given(st.binary(min_size=100, max_size=3000))
def test_encoded_images_are_no_keys(data: bytes) -> None:
    assert spot(f"![](data:image/png;base64,{base64.b64encode(data).decode()})") == []


@given(st.text(max_size=200), st.sampled_from(sorted(KEYS.values())), st.text(max_size=200))
def test_what_was_masked_holds_the_key_no_more_and_is_masked_no_further(before: str, key: str, after: str) -> None:
    clean, _ = screen(f"{before} {key} {after}")
    assert key not in clean
    assert screen(clean) == (clean, ())


@given(st.text(max_size=300))
def test_spans_stand_in_the_text_in_order_and_apart(text: str) -> None:
    ends = [0, *(n for one in spot(text) for n in (one.start, one.end)), len(text)]
    assert ends == sorted(ends)


def test_a_notice_says_what_was_kept_out_and_how_to_store_it() -> None:
    clean, notices = screen(f"Use {ANTHROPIC} and {KEYS['github token']}", "weather")
    assert clean == "Use [redacted: anthropic key] and [redacted: github token]"
    assert len(notices) == 1
    assert "an anthropic key and a github token" in notices[0]
    assert "artificer credentials set weather NAME" in notices[0]


def test_words_without_a_key_pass_as_they_are() -> None:
    assert screen("Build an agent that reads the weather.") == ("Build an agent that reads the weather.", ())
