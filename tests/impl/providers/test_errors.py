"""What a server or the network said becomes one typed error."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl.providers._errors import Said, Service, decide, read_body, read_value, retry_after, server_error

SERVICE = Service("Test", "TEST_KEY", "TEST_URL", "http://x", "m", ("sk-secret-value",))


def detail(status: int | None, body: Any) -> str:
    return decide(read_body(status, body if isinstance(body, bytes) else json.dumps(body).encode()))


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (401, b"", "auth"),
        (403, {"error": {"message": "no"}}, "auth"),
        (402, {"error": {"message": "Insufficient Balance"}}, "quota"),
        (404, {"error": "model 'x' not found"}, "not_found"),
        (408, b"", "timeout"),
        (413, b"", "context"),
        (429, {"error": {"type": "rate_limit_error", "message": "slow down"}}, "rate_limit"),
        (429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}, "quota"),
        (429, {"error": {"type": "insufficient_quota"}}, "quota"),
        (500, {"error": {"message": "boom"}}, "server"),
        (501, b"", "capability"),
        (502, b"<html>Bad Gateway</html>", "overloaded"),
        (503, b"", "overloaded"),
        (504, b"", "timeout"),
        (529, {"error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
        (400, b"<html>400</html>", "protocol"),
        (302, b"", "protocol"),
        (400, {"error": {"type": "invalid_request_error", "message": "bad field"}}, "bad_request"),
        (400, {"error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}}, "context"),
        (400, {"error": {"code": "context_length_exceeded", "message": "too much"}}, "context"),
        (400, {"error": {"type": "invalid_request_error", "message": "Your credit balance is too low"}}, "quota"),
        (400, {"error": {"message": "API key not valid. Please pass a valid one."}}, "auth"),
        (400, {"error": {"message": "tiny does not support tools"}}, "capability"),
        (400, {"error": "registry/tiny:1b does not support tools"}, "capability"),
        (400, {"object": "error", "message": "tool calling is not supported", "code": 400}, "capability"),
        (500, {"error": {"message": "invalid message content type: null"}}, "bad_request"),
        (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "bad_request"),
        (400, {"error": {"message": "input length and `max_tokens` exceed context limit: 9 + 8 > 10"}}, "context"),
        (400, {"error": {"message": "This model's maximum prompt length is 131072, not 140000."}}, "context"),
        (400, {"error": {"message": "The decoder prompt is longer than the maximum model length of 4096."}}, "context"),
        (
            400,
            [{"error": {"code": 400, "message": "The input token count (12) exceeds the maximum of 10."}}],
            "context",
        ),
        (422, {"error": {"message": "`inputs` tokens + `max_new_tokens` must be <= 8193"}}, "context"),
        (400, {"error": {"message": "Range of input length should be [1, 129024]"}}, "context"),
        (
            429,
            {"error": {"code": "rate_limit_exceeded", "message": "Request too large for m: Limit 3, Used 9"}},
            "context",
        ),
        (400, {"error": {"message": "Provider returned error", "metadata": {"raw": "context length is 8"}}}, "context"),
        (400, {"error": {"message": "You have reached your specified API usage limits."}}, "quota"),
        (403, {"code": "denied", "error": "Your team has reached its monthly spending limit."}, "quota"),
        (400, {"error": {"type": "budget_exceeded", "message": "Budget has been exceeded! Max: 1"}}, "quota"),
        (429, {"error": {"code": "1113", "message": "余额不足或无可用资源包"}}, "quota"),
        (429, [{"error": {"message": "You exceeded your current quota. Please retry in 36.3s."}}], "rate_limit"),
        (400, {"__type": "com.amazon.x#ThrottlingException", "message": "Rate exceeded"}, "rate_limit"),
        (498, {"error": {"type": "capacity_exceeded", "message": "Flex tier capacity exceeded"}}, "overloaded"),
        (409, b"", "server"),
        (424, {"__type": "ModelErrorException", "message": "try again"}, "server"),
        (404, {"error": {"message": "No endpoints found that support tool use."}}, "capability"),
        (400, {"error": {"code": "unknown_model", "message": "Unknown model: foo"}}, "not_found"),
        (400, {"error": {"message": "Model Not Exist"}}, "not_found"),
        (None, {"error": "Unexpected endpoint or method. (POST /chat/completions)"}, "not_found"),
        (None, {"error": {"message": "bad", "code": 400}}, "bad_request"),
        (None, {"error": {"message": "busy", "code": "503"}}, "overloaded"),
        (None, {"error": {"type": "api_error", "message": "x"}}, "server"),
        (None, {"error": "went wrong"}, "server"),
        (None, {}, "protocol"),
    ],
)
def test_an_error_body_gets_its_detail(status: int | None, body: Any, expected: str) -> None:
    assert detail(status, body) == expected


@pytest.mark.parametrize(
    ("detail_", "transient"),
    [("rate_limit_error", True), ("overloaded_error", True), ("billing_error", False), ("authentication_error", False)],
)
def test_only_what_can_heal_is_transient(detail_: str, transient: bool) -> None:
    assert server_error(Said(None, (detail_,), "x"), SERVICE, 3.0).transient is transient


def test_a_wait_is_kept_for_transient_errors_alone() -> None:
    assert server_error(Said(429, (), "x"), SERVICE, 3.0).retry_after == 3.0
    assert server_error(Said(401, (), "x"), SERVICE, 3.0).retry_after is None


def test_the_servers_words_are_in_the_message_and_the_key_is_not() -> None:
    said = read_body(401, b'{"error":{"message":"wrong key sk-secret-value, or sk-abcdefghijkl"}}')
    error = server_error(said, SERVICE)
    assert "wrong key [key], or sk-[key]" in error.message


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("bad header Basic dXNlcjpwYXNzMDE= here", "bad header Basic [key] here"),
        ("bad header Bearer abc+def/ghi012== here", "bad header Bearer [key] here"),
        ("Basic authentication is wanted", "Basic authentication is wanted"),
    ],
)
def test_what_a_server_repeats_of_a_header_is_no_key(said: str, kept: str) -> None:
    assert SERVICE.redact(said) == kept


def test_a_placeholder_key_does_not_garble_the_message() -> None:
    service = Service("Test", "TEST_KEY", "TEST_URL", "http://x", "m", ("ollama",))
    assert "ollama is loading" in server_error(read_body(503, b'{"error":"ollama is loading"}'), service).message


def test_a_service_does_not_show_its_secrets() -> None:
    assert "sk-secret" not in repr(SERVICE)


def test_html_is_told_in_words() -> None:
    said = read_body(502, b"<html><style>p {}</style><h1>Bad\n Gateway</h1></html>")
    assert said.message == "Bad Gateway"


NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "99999999999"}, 99999999999.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
    ],
)
def test_retry_after_is_seconds_or_a_date(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after(headers, NOW) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Please retry in 36.3s.", 36.3),
        ("Please try again in 1m30s. Need more tokens?", 90.0),
        ("Please try again in 200ms.", 0.2),
        ("Please retry after 6 seconds.", 6.0),
        ("Try again in 20 minutes", 1200.0),
        ("Please try again later.", None),
    ],
)
def test_a_wait_may_stand_in_the_message(words: str, expected: float | None) -> None:
    assert server_error(Said(429, (), words), SERVICE).retry_after == expected
    assert server_error(Said(429, (), words), SERVICE, 3.0).retry_after == 3.0


@pytest.mark.parametrize(
    ("wait", "words"),
    [(90.0, "Wait 90 seconds,"), (431.0, "Wait 8 minutes,"), (7200.0, "Wait 2 hours,"), (5.0, "Wait a little,")],
)
def test_who_asks_for_a_long_wait_is_quoted(wait: float, words: str) -> None:
    assert server_error(Said(429, (), "x"), SERVICE, wait).hint.startswith(words)
    assert server_error(Said(429, (), "x"), SERVICE, float("inf")).hint.startswith("Wait a little")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"Message": "not authorized"}, "not authorized"),
        ({"success": False, "errors": [{"code": 5007, "message": "No such thing"}]}, "No such thing"),
        ({"error": ["one thing", "another"]}, "one thing"),
        ({"status": 7, "trace": "abc"}, '{"status": 7, "trace": "abc"}'),
        ("just words", "just words"),
        ({"error": {"message": "Provider returned error", "metadata": {"raw": "too busy"}}}, "error: too busy"),
    ],
)
def test_whatever_shape_an_error_has_its_words_are_shown(body: Any, words: str) -> None:
    assert server_error(read_body(400, json.dumps(body).encode()), SERVICE).message.endswith(words)


@given(st.binary())
def test_any_body_is_read(body: bytes) -> None:
    assert decide(read_body(500, body))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["error", "message", "type", "code"]), inner),
)


@given(JSON)
def test_any_value_is_read(value: Any) -> None:
    error = server_error(read_value(None, value), SERVICE)
    error.message.encode()
