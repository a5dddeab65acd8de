"""Where a redirect may lead: to the same host, checked again like any request."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final
from urllib.parse import urljoin

from core.effects.policy import EffectPolicy
from core.effects.requests import Allowed, DenialReason, Denied, EffectRequest

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
MAX_REDIRECTS: Final = 3

# `urljoin` drops some other characters without a word.
_PLAIN = re.compile(r"[!-~]{1,8192}")


def follow_redirect(request: Allowed, status: int, location: str, policy: EffectPolicy) -> Allowed | Denied:
    """The request that a redirect asks for, or why it is not made (reason `redirect`).

    Methods change as in browsers: 303 turns all but HEAD into GET, 301 and 302 turn POST into GET, and such a
    GET has no body; 307 and 308 send the same again.
    """
    if not _PLAIN.fullmatch(location) or "\\" in location:
        return Denied(DenialReason.REDIRECT, "the server redirects to something that is not a plain URL", sent=True)
    try:
        url = urljoin(request.url, location.partition("#")[0])
    except ValueError:
        return Denied(DenialReason.REDIRECT, "the server redirects to something that is not a URL", sent=True)
    again = _method(request, status)
    asked = EffectRequest(again.method, url, again.headers, again.body, again.credential)
    verdict = policy.check(asked)
    if isinstance(verdict, Denied):
        return Denied(DenialReason.REDIRECT, f"the server redirects, and {verdict.detail}", sent=True)
    if verdict.host != request.host:
        detail = f"the server redirects to {verdict.host}; ask for that host itself if it is meant"
        return Denied(DenialReason.REDIRECT, detail, sent=True)
    return verdict


def _method(request: Allowed, status: int) -> Allowed:
    becomes_get = (status == 303 and request.method != "HEAD") or (status in (301, 302) and request.method == "POST")
    if not becomes_get:
        return request
    headers = tuple(header for header in request.headers if not header[0].lower().startswith("content-"))
    return replace(request, method="GET", headers=headers, body=b"")
