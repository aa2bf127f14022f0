"""Games against a server of other people's making: llama.cpp with a tiny model of random weights.

A server that keeps to grammars makes every answer of such a model valid JSON of the asked form, and noise
in its content: what is wrong in a game then is ours.
"""
