"""The settings of sandboxes: where they come from, and what they may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from impl.compose import sandbox_options
from impl.settings import Settings, SettingsError, load_settings

NONE = Path("/nonexistent/artificer.toml")


def test_a_person_s_own_file_sets_them_as_toml_does(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")
    own = tmp_path / "own.toml"
    own.write_text(
        'sandbox_image = "local"\n'
        'allow_cidrs = ["10.0.0.0/8", "192.0.2.7/32"]\n'
        f'ca_bundle = "{tmp_path}/ca.pem"\n'
        "sandbox_ttl = 60\nworkspace_quota = 5\n"
    )
    options = sandbox_options(tmp_path, load_settings({}, tmp_path, own))()
    assert (options.image, options.allow_cidrs) == ("local", ("10.0.0.0/8", "192.0.2.7/32"))
    assert (options.ca_bundle, options.ttl_s, options.quota) == (tmp_path / "ca.pem", 60, 5_000_000)


def test_a_variable_lists_ranges_with_commas(tmp_path: Path) -> None:
    settings = load_settings({"ARTIFICER_ALLOW_CIDRS": "10.1.2.3/8, fd00::/8,"}, tmp_path, NONE)
    assert settings.allow_cidrs == ("10.0.0.0/8", "fd00::/8")


@pytest.mark.parametrize("value", ["10.0.0.0/33", "mirror.example.com", "10.0.0.0-10.0.0.9"])
def test_what_is_no_range_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(SettingsError, match=r"(?i)allow_cidrs"):
        load_settings({"ARTIFICER_ALLOW_CIDRS": value}, tmp_path, NONE)


def test_a_bundle_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such file"):
        load_settings({"ARTIFICER_CA_BUNDLE": str(tmp_path / "ca.pem")}, tmp_path, NONE)


def test_zero_is_without_end(tmp_path: Path) -> None:
    lifetime = sandbox_options(tmp_path, Settings(sandbox_ttl=0, workspace_quota=0))().lifetime
    assert (lifetime.ttl_s, lifetime.quota) == (None, None)


def test_nothing_private_is_allowed_by_itself() -> None:
    assert (Settings().allow_cidrs, Settings().ca_bundle) == ((), None)
