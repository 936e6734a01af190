"""Policies: a causal language model with a LoRA adapter, its tokenizer, and sampling."""

import logging

DTYPES = ("auto", "bfloat16", "float32")  # number formats of a base's parameters
LOAD_IN = ("8bit", "4bit")  # how they may be quantised
CARD = "policy.json"  # in an adapter's folder: what it was trained on

# peft imports bitsandbytes where it is installed, and its log lines would fill the user's stderr.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
