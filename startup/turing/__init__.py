"""The Turing patch: lets an installed vLLM's Triton unified attention run in the shared memory of compute capability 7.x.

A block may have 65,536 bytes there; the kernel asks for 98,304 at Gemma 4's 512-wide global layers. `python -m startup.turing`
applies, checks, reverts and proves it. All but `prove` need the standard library alone: they run where vLLM is installed.
"""
