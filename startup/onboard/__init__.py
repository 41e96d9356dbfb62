"""What runs on the machine itself: Python's standard library only, 3.10 or later (Ubuntu 22.04's), carried inside the boot script.

Every program that leaves the machine's own process is a command on PATH (`curl`, `docker`): what a boot does can be read from
the commands that it starts.
"""
