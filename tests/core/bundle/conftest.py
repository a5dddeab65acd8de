"""Bundles on disk for the tests of this directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

GOOD: Mapping[str, str] = {
    "agent.yaml": (
        "schema: artificer/v1\n"
        "name: weather\n"
        "description: Answers questions about the weather.\n"
        "skills: [read-maps]\n"
        "tools: [get_forecast]\n"
        "corpus: true\n"
        "credentials:\n"
        "- name: WEATHER_KEY\n"
        "  hosts: [api.example.com]\n"
        "  header: Authorization\n"
        "  format: Bearer {secret}\n"
    ),
    "persona.md": "You answer questions about the weather.\n",
    "skills/read-maps/SKILL.md": "---\nname: read-maps\ndescription: Reads weather maps.\n---\nLook at the isobars.\n",
    "tools/get_forecast/tool.yaml": (
        "name: get_forecast\n"
        "description: The forecast for a city.\n"
        "input_schema:\n"
        "  type: object\n"
        "  properties:\n"
        "    city: {$ref: '#/$defs/city'}\n"
        "  required: [city]\n"
        "  $defs:\n"
        "    city: {type: string}\n"
        "requirements: ['PyYAML>=6']\n"
        "credentials: [WEATHER_KEY]\n"
        "hosts: [api.example.com]\n"
        "examples:\n"
        "- input: {city: Oslo}\n"
    ),
    "tools/get_forecast/tool.py": (
        "import json\n"
        "import yaml\n"
        "import helper\n"
        "\n"
        "def run(ctx, input):\n"
        "    return json.dumps(helper.shape(yaml.safe_load(input['city'])))\n"
    ),
    "tools/get_forecast/helper.py": "def shape(value):\n    return {'value': value}\n",
    "corpus/guide.md": "# Guide\n\nRain falls.\n",
}

MakeBundle = Callable[..., Path]


@pytest.fixture
def make_bundle(tmp_path: Path) -> MakeBundle:
    """A function that writes the good bundle with some files replaced (None leaves one out)."""

    def make(changes: Mapping[str, str | bytes | None] | None = None, name: str = "bundle") -> Path:
        root = tmp_path / name
        for path, content in {**GOOD, **(changes or {})}.items():
            if content is None:
                continue
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        return root

    return make
