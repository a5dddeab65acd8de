"""Help: every key there is, by where it acts, with the name a keymap file calls it by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.binding import Binding, BindingType

from tui.view.text import Line, Tone, line

INTRO: tuple[Line, ...] = (
    line("The sign at the top says whose turn it is: ● ⚿ ! ⟳ ◔ ‖ yours, ▸ the agent's, ✓ ■ nobody's, ⊘ ✗ it failed."),
    line("What you write always goes to the session on screen: it answers what it asks, or says more."),
    line("A card never takes a key from the composer: press escape first, then its keys act."),
    line("While you write, page up and page down scroll what stands above."),
    line("Lists: arrows or j k move, enter opens. Select text with the mouse, then copy it with F8."),
    (),
)


def help_lines(
    groups: Sequence[tuple[str, Sequence[BindingType]]], keymap: Mapping[str, str], where: str
) -> list[Line]:
    """One line a key. `keymap` holds the person's own keys by binding id; `where` is the file they stand in."""
    lines = list(INTRO)
    for title, bindings in groups:
        lines.append(line((title, Tone.STRONG)))
        for binding in bindings:
            if isinstance(binding, Binding):
                lines.append(_key(binding, keymap))
        lines.append(())
    example = '  "revisions.publish" = "P"'
    lines += [
        line(("Your own keys", Tone.STRONG)),
        line("  Write the names on the right into ", (where, Tone.STRONG), ":"),
        line((example, Tone.DIM)),
    ]
    return lines


def _key(binding: Binding, keymap: Mapping[str, str]) -> Line:
    keys = keymap.get(binding.id or "", binding.key).replace(",", " ").replace("slash", "/")
    words = binding.tooltip or binding.description
    # Where one part is longer than its column, those after it keep as near to theirs as they can.
    left = f"{keys:13} {words}" if len(keys) <= 13 else f"{keys} {words}"
    return line(
        "  ",
        (left[: len(left) - len(words)], Tone.STRONG),
        f"{words:{max(0, 55 - len(left) + len(words))}} ",
        (binding.id or "", Tone.DIM),
    )
