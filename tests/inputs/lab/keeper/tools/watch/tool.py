"""Waits for a file, so that whoever runs it decides for how long."""

import os
import time


def run(ctx, input):
    with open("watching", "w") as file:
        file.write(input["post"])
    while not os.path.exists("turned"):
        time.sleep(0.02)
    return f"The tide turned at the {input['post']}."
