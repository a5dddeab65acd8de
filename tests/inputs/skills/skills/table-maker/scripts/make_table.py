"""Print a CSV file as a Markdown table."""

import csv
import sys

with open(sys.argv[1], newline="", encoding="utf-8") as file:
    for row in csv.reader(file):
        sys.stdout.write("| " + " | ".join(row) + " |\n")
