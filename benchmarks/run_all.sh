#!/usr/bin/env bash
# All figures of docs/performance.md, most important first; a part that is interrupted keeps its rounds.
#
#   benchmarks/run_all.sh --models DIR --llama-bench P [--openvino-python P] [--vllm-python P]
#       [--transformers-python P] [--out DIR] [--page FILE.md] [--parts "smollm2 qwen05 ..."]
#
# DIR holds the GGUF files; qwen2.5-0.5b-q4_0.gguf (for OpenVINO), smollm2-bf16.gguf, qwen2.5-0.5b-bf16.gguf and the
# folders hf/smollm2-135m, hf/qwen2.5-coder-0.5b (for vLLM, transformers) where their peers are to run.
# About 35 minutes on two quiet cores for the default parts. The others: local (6 minutes; 20 without AVX-512), bf16 (10),
# bf16-serving (14), prefix-vllm (8), accuracy (30). PYTHON names the interpreter that has octavo.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
export PYTHONPATH=src:.
models='' llama='' openvino='' vllm='' transformers='' out=docs/performance page=docs/performance.md
parts="smollm2 smollm2-serving smollm2-prefix qwen05 gemma3 qwen05-serving qwen15 qwen05-prefix"
while [ $# -gt 0 ]; do
  case $1 in
    --models) models=$2 ;;
    --llama-bench) llama=$2 ;;
    --openvino-python) openvino=$2 ;;
    --vllm-python) vllm=$2 ;;
    --transformers-python) transformers=$2 ;;
    --out) out=$2 ;;
    --page) page=$2 ;;
    --parts) parts=$2 ;;
    *) echo "$1 is no option" >&2; exit 2 ;;
  esac
  shift 2
done
[ -d "$models" ] || { echo "--models DIR is missing" >&2; exit 2; }
mkdir -p "$out"
logs=$(mktemp -d)
echo "logs: $logs"

smollm2=$models/SmolLM2-135M-Instruct.Q4_1.gguf
gemma3=$models/gemma-3-270m-Q4_K_M.gguf
qwen05=$models/qwen2.5-0.5b-q4.gguf
qwen05_q4_0=$models/qwen2.5-0.5b-q4_0.gguf
qwen15=$models/qwen2.5-1.5b-q4.gguf
declare -A bf16=([smollm2]=$models/smollm2-bf16.gguf [qwen05]=$models/qwen2.5-0.5b-bf16.gguf)
declare -A hf=([smollm2]=smollm2-135m [qwen05]=qwen2.5-coder-0.5b)

# That all contenders may take to load: vLLM compiles a model first, for minutes on a processor without AVX-512.
load_seconds=150
[ -z "$vllm" ] || load_seconds=450

step() { # step SECONDS NAME COMMAND...: at most so long; its report is $out/NAME.json
  local seconds=$1 name=$2
  shift 2
  echo "== $name ($(date +%T))"
  timeout --signal=TERM --kill-after=20 "$seconds" "$@" >"$logs/$name.log" 2>&1 || echo "   $name ended with status $?"
  cat "$logs/$name.log"
}
sides() { # sides SECONDS NAME MODEL ARGUMENT...
  local seconds=$1 name=$2 model=$3
  shift 3
  step $((seconds + load_seconds)) "$name" "$python" -m benchmarks.side_by_side "$model" --batch-sizes 32 --context 32 --steps 16 --seconds "$seconds" \
    --targets --json "$out/$name.json" "$@"
}
serving() { # serving SECONDS NAME MODEL ARGUMENT...
  local seconds=$1 name=$2 model=$3
  shift 3
  step $((seconds + load_seconds + 150)) "$name" "$python" -m benchmarks.serving "$model" --seconds "$seconds" \
    --targets --json "$out/$name.json" "$@"
}
prefix() { # prefix SECONDS NAME MODEL ARGUMENT...: llama-server computes the beginning in each slot, once is enough
  serving "$@" --clients --prefix-len 1000 --most-rounds llama.cpp=1
}
bench() { # bench NAME COMMAND ARGUMENT...
  local name=$1
  shift
  step 420 "$name" "$python" -m octavo bench "$@" --output "$out/$name.json"
}
peer() { [ -z "$2" ] || printf '%s\n' "$1" "$2"; } # peer FLAG VALUE: nothing without a value

mapfile -t both < <(peer --llama-bench "$llama"; peer --openvino-python "$openvino")
mapfile -t llama_only < <(peer --llama-bench "$llama")
mapfile -t vllm_only < <(peer --vllm-python "$vllm")
mapfile -t bf16_peers < <(peer --vllm-python "$vllm"; peer --transformers-python "$transformers")
q4_0=(--peer-model "openvino=$qwen05_q4_0")
bf16_folders() { printf '%s\n' --peer-model "vllm=$models/hf/$1" --peer-model "transformers=$models/hf/$1"; }

for part in $parts; do
  case $part in
    smollm2) sides 120 smollm2 "$smollm2" "${both[@]}" ;;
    smollm2-serving) serving 330 smollm2-serving "$smollm2" "${both[@]}" --most-rounds llama.cpp=3 ;;
    smollm2-prefix) prefix 150 smollm2-prefix "$smollm2" "${both[@]}" ;;
    qwen05) sides 180 qwen05 "$qwen05" "${both[@]}" "${q4_0[@]}" ;;
    qwen05-serving) serving 540 qwen05-serving "$qwen05" "${both[@]}" "${q4_0[@]}" --most-rounds llama.cpp=2 ;;
    qwen05-prefix) prefix 360 qwen05-prefix "$qwen05" "${both[@]}" "${q4_0[@]}" ;;
    gemma3) sides 90 gemma3 "$gemma3" "${llama_only[@]}" ;;
    qwen15) sides 270 qwen15 "$qwen15" "${llama_only[@]}" ;;
    local)
      for name in smollm2 gemma3 qwen05 qwen15; do
        bench "$name-latency" latency "${!name}" --contexts 128 512 2048 --batch-sizes 1 2 4 8 16 32 --repeats 2 \
          --decode-steps 8 --max-prompt-tokens 4096
        bench "$name-startup" startup "${!name}"
        step 150 "$name-profile" "$python" -m benchmarks.step_profile "${!name}" --json "$out/$name-profile.json"
      done
      ;;
    bf16)
      [ -n "$vllm$transformers" ] || continue
      for name in smollm2 qwen05; do
        mapfile -t folders < <(bf16_folders "${hf[$name]}")
        sides 60 "$name-bf16" "${bf16[$name]}" "${bf16_peers[@]}" "${folders[@]}"
        sides 60 "$name-bf16-int8" "${bf16[$name]}" "${vllm_only[@]}" "${folders[@]}" --octavo quantization=int8
      done
      ;;
    bf16-serving)
      [ -n "$vllm" ] || continue
      for name in smollm2 qwen05; do
        folder=(--peer-model "vllm=$models/hf/${hf[$name]}")
        serving 90 "$name-bf16-serving" "${bf16[$name]}" "${vllm_only[@]}" --clients 32 "${folder[@]}"
        serving 90 "$name-bf16-int8-serving" "${bf16[$name]}" "${vllm_only[@]}" --clients 32 "${folder[@]}" \
          --octavo quantization=int8
      done
      ;;
    prefix-vllm)
      [ -n "$vllm" ] || continue
      prefix 90 smollm2-prefix-vllm "$smollm2" "${vllm_only[@]}" \
        --peer-model "vllm=$models/hf/smollm2-135m"
      prefix 120 qwen05-prefix-vllm "$qwen05" "${vllm_only[@]}" \
        --peer-model "vllm=$models/hf/qwen2.5-coder-0.5b"
      ;;
    accuracy) # long: about half an hour
      for name in smollm2 gemma3 qwen05 qwen15; do
        step 1800 "$name-perplexity" "$python" -m benchmarks.perplexity "${!name}" --json "$out/$name-perplexity.json"
      done
      ;;
    *) echo "$part is no part" >&2 ;;
  esac
done
shopt -s nullglob
reports=("$out"/*.json)
[ "${#reports[@]}" -eq 0 ] || "$python" -m benchmarks.report --page "$page" "${reports[@]}"
