"""The terminal app and the `artificer` command."""

import os

# A change waits for the next frame: at Textual's own 60 a second that wait alone is most of the 20 ms a key may take.
# Nothing here paints more often for it; what streams comes every 50 ms. Read when Textual is first imported.
os.environ.setdefault("TEXTUAL_FPS", "120")
