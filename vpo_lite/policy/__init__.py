"""Policies: a causal language model with a LoRA adapter, its tokenizer, and fast sampling."""

import logging

logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # peft imports it where it is installed, and it talks on stderr
