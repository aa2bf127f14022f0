"""Games against a real model server: llama.cpp with a tiny model of random weights.

With a grammar, every answer of such a model is valid JSON of the requested form, with random content. So any
fault in a game is ours.
"""
