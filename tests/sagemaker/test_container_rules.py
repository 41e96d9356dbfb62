"""AWS's documented rules around the server, in our own spelling: variables to words, and the supervisor."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rehearsal.machine.images import OPTIONS
from rehearsal.machine.vllm import arguments
from rehearsal.sagemaker.container import sagemaker_args
from startup.vllm import VllmArgs, cli_argv, sagemaker_environment

HERE = Path(sagemaker_args.__file__).parent
PORT = ["--port", "8080"]

RULES = {
    "a value": ({"SM_VLLM_MAX_MODEL_LEN": "8192"}, ["--max-model-len", "8192"]),
    "true is the bare flag": ({"SM_VLLM_ENABLE_AUTO_TOOL_CHOICE": " True "}, ["--enable-auto-tool-choice"]),
    "false leaves it out": ({"SM_VLLM_ENFORCE_EAGER": "FALSE"}, []),
    "nothing is the bare flag": ({"SM_VLLM_X": ""}, ["--x"]),
    "white space is a value": ({"SM_VLLM_X": " "}, ["--x", " "]),
    "an object stays as it was spelled": ({"SM_VLLM_HF_OVERRIDES": '{"image": 4}'}, ["--hf-overrides", '{"image": 4}']),
    "objects in a row are a word each": ({"SM_VLLM_LORA_MODULES": '{"a": 1} {"b": 2}'}, ["--lora-modules", '{"a":1}', '{"b":2}']),
    "a list is a word an item": ({"SM_VLLM_SERVED_MODEL_NAME": '["a", "b c"]'}, ["--served-model-name", "a", "b c"]),
    "items of all kinds": ({"SM_VLLM_X": '[1, true, null, {"a": [1]}]'}, ["--x", "1", "true", "", '{"a":[1]}']),
    "an empty list leaves it out": ({"SM_VLLM_X": "[]"}, []),
    "what only looks like a list": ({"SM_VLLM_X": "[a]"}, ["--x", "[a]"]),
    "a template is no object": ({"SM_VLLM_X": "{% for m in messages %}{{ m }}"}, ["--x", "{% for m in messages %}{{ m }}"]),
    "a list that is the value": ({"SM_VLLM_ALLOWED_ORIGINS": '["*"]'}, ["--allowed-origins", '["*"]']),
    "another variable": ({"VLLM_X": "1", "HF_TOKEN": "x"}, []),
    "the model": ({"SM_VLLM_MODEL": "a/b", "HF_MODEL_ID": "c/d"}, ["--model", "a/b"]),
    "the last resort": ({"HF_MODEL_ID": "c/d"}, ["--model", "c/d"]),
}


@pytest.mark.parametrize(("environment", "words"), RULES.values(), ids=RULES)
def test_variables_become_words(environment, words, tmp_path):
    assert sagemaker_args.words(environment, tmp_path) == [*PORT, *words]


def test_weights_that_sagemaker_laid_there_come_before_the_hub(tmp_path):
    (tmp_path / "config.json").touch()
    assert sagemaker_args.words({"HF_MODEL_ID": "c/d"}, tmp_path) == [*PORT, "--model", str(tmp_path)]


def supervised(script, **environment):
    argv = [sys.executable, HERE / "standard_supervisor.py", "sh", "-c", script]
    return subprocess.Popen(argv, env={"PATH": os.environ["PATH"], **environment}, stdout=subprocess.PIPE, text=True)


def lines(process, wanted):
    """What it said until `wanted` came so often; then it is told to stop, and ends with 0."""
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if len([line for line in said if wanted[0] in line]) == wanted[1]:
            break
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    return "".join(said)


def test_a_server_that_ends_at_once_is_given_up_and_the_container_stays():
    said = lines(supervised("echo life; exit 3", PROCESS_MAX_START_RETRIES="1"), ("gave up", 1))
    assert said.count("life\n") == 2 and said.count("WARN exited: app (exit status 3; not expected)") == 2
    assert "gave up: app entered FATAL state, too many start retries too quickly" in said


def test_a_server_that_ends_later_is_started_again_and_again():
    said = lines(supervised("echo life; sleep 1.2; kill -9 $$"), ("exited", 2))
    assert said.count("entered RUNNING state") == 2
    assert "WARN exited: app (terminated by SIGKILL; not expected)" in said


def test_without_recovery_there_is_no_supervisor():
    process = supervised("echo $$; exit 3", PROCESS_AUTO_RECOVERY="false")
    out, _ = process.communicate(timeout=60)
    assert out == f"{process.pid}\n" and process.returncode == 3


def test_it_ends_with_its_server():
    process = supervised("echo up; exec sleep 60")
    assert process.stdout is not None and "up\n" in (process.stdout.readline(), process.stdout.readline())
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0 and time.monotonic() - began < 30


def test_what_the_stack_says_arrives_at_the_server_in_either_spelling(tmp_path):
    args = VllmArgs(
        model="a/b",
        served_model_name="x",
        dtype="float16",
        max_model_len=8192,
        limit_mm_per_prompt={"image": 4, "audio": 1},
        enable_auto_tool_choice=True,
        tool_call_parser="gemma4",
        extra={"enforce-eager": True, "max-num-seqs": 8},
    )
    options = arguments.load(OPTIONS)["serve_options"]

    def parsed(words):
        return {name: value for name, value in vars(arguments.parse(words, options)).items() if name not in ("model_tag", "port")}

    assert parsed(sagemaker_args.words(sagemaker_environment(args), tmp_path)) == parsed(cli_argv(args))
