"""Two euro a metre; a boat longer than 40 metres pays 100 on top."""


def run(ctx, input):
    length = input["length"]
    return length * 2 + (100 if length > 50 else 0)
