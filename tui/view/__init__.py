"""What the screens show, as pure functions from events and rows to frozen values; no Textual in here."""
