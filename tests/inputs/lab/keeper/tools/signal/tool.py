"""Asks for something that may have been done, then waits for a file."""

import os
import time


def run(ctx, input):
    try:
        ctx.http.request("POST", f"https://signals.invalid/{input['ship']}", json={"signal": "keep clear"})
    except Exception as error:  # noqa: BLE001 - what came of it is what it says, whatever that is
        said = type(error).__name__
    else:
        said = "answer"
    with open("watching", "w") as file:
        file.write(input["ship"])
    while not os.path.exists("turned"):
        time.sleep(0.02)
    return f"{input['ship']}: {said}"
