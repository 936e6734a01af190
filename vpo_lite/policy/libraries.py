"""What this package takes from transformers and peft, imported in one place.

transformers loads its parts when they are first used, without a lock. Two threads that do so at
once, a panel that warms up and a cell that loads a policy, met half-loaded modules: "cannot import
name 'AutoModel'". Now the first one imports all of this module, and the others wait.
"""

# ruff: noqa: F401
import gc

collects = gc.isenabled()
gc.disable()  # it would look for garbage, again and again, among a million objects that stay: 1 s
try:
    import torch
    from peft import LoraConfig, PeftModel, get_peft_model
    from peft.tuners.lora import Linear as LoraLinear
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import ModulesToSaveWrapper
    from peft.utils.save_and_load import load_peft_weights, set_peft_model_state_dict
    from transformers import (
        AutoConfig,
        AutoModelForCausalLM,
        AutoTokenizer,
        BitsAndBytesConfig,
        LlamaConfig,
        LlamaForCausalLM,
        PreTrainedConfig,
        PreTrainedTokenizerFast,
    )
    from transformers.cache_utils import DynamicCache, DynamicLayer
    from transformers.modeling_layers import GradientCheckpointingLayer
    from transformers.pytorch_utils import Conv1D
    from transformers.utils import logging as hf_logging
finally:
    if collects:
        gc.enable()

# On an H100 torch prefers cuDNN's attention. With a mask its gradients are NaN in models such as
# Qwen2.5 (pytorch issue 196678); on a B200 its results are wrong (193893). Other kernels are right.
torch.backends.cuda.enable_cudnn_sdp(False)
