"""The ends of the scripts for bash, zsh and fish, which complete names of runs, keys of --set and
their values, and names of nets. cyclopts makes the beginnings: commands and options.

Run directories are looked for where the cluster.toml of the working directory says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from runtime.cli.completed_words import NET

Shell = Literal["bash", "zsh", "fish"]

# commands whose argument is a run
OF_RUNS = "compare convert down events logs predict report save scale stack status test top trace"
FOLDER = r"/^\[run\]/,/^\[/s/^directory *= *\"\(.*\)\".*/\1/p"

# in the language that bash and zsh share: the candidates after the word $1 of the command $2,
# where $3 is typed, one a line
CANDIDATES = r"""
_convoy_candidates() {{
  local folder run
  case $1 in
    --set)
      case $3 in
{values}
        *) printf '%s=\n' {keys} ;;
      esac ;;
    --net) printf '%s\n' {nets} ;;
    *)
      [[ $1 == --resume || " {of_runs} " == *" $2 "* && $3 != -* ]] || return 0
      folder=$(command sed -n '{folder}' cluster.toml 2> /dev/null)
      command ls -1 "${{folder:-runs}}" 2> /dev/null | while IFS= read -r run; do
        [[ -f ${{folder:-runs}}/$run/run.json ]] && printf '%s\n' "$run"
      done
      return 0 ;;
  esac
}}
"""

BASH = r"""
# readline divides words at "=", so KEY=VALUE is put together again
_convoy_words() {
  _convoy
  local at=$COMP_CWORD typed="${COMP_WORDS[COMP_CWORD]}" key="" found
  if [[ $typed == = ]]; then
    key="${COMP_WORDS[at-1]}=" typed="" at=$((at - 1))
  elif [[ ${COMP_WORDS[at-1]} == = ]]; then
    key="${COMP_WORDS[at-2]}=" at=$((at - 2))
  fi
  found=$(_convoy_candidates "${COMP_WORDS[at-1]}" "${COMP_WORDS[1]}" "$key$typed")
  if [[ ${COMP_WORDS[at-1]} == --set ]]; then
    COMPREPLY=()
    [[ $key$typed == *=* ]] || compopt -o nospace 2> /dev/null
  fi
  local IFS=$'\n' more
  more=( $(compgen -W "$found" -- "$key$typed") )
  COMPREPLY+=( "${more[@]#"$key"}" )
}

complete -F _convoy_words convoy
"""

ZSH = r"""
_convoy_words() {
  local -a found
  found=( ${(f)"$(_convoy_candidates "$words[CURRENT-1]" "$words[2]" "$words[CURRENT]")"} )
  if [[ $words[CURRENT-1] == --set ]]; then
    compadd -S '' -a found
  else
    (( $#found )) && compadd -a found
    _cyclopts_convoy "$@"
  fi
}

compdef _convoy_words convoy
# the first call of a file in $fpath is this file itself
[[ $funcstack[1] == _cyclopts_convoy ]] && _convoy_words "$@"
"""

FISH = r"""
function __convoy_after
    set -l typed (commandline -opc)
    contains -- $typed[-1] $argv
end

function __convoy_of_set
    switch (commandline -ct)
{values}
        case '*'
            printf '%s=\n' {keys}
    end
end

function __convoy_runs
    set -l folder (command sed -n '{folder}' cluster.toml 2> /dev/null)
    test -n "$folder"; or set folder runs
    for run in $folder/*/run.json
        set -l parts (string split / $run)
        echo $parts[-2]
    end
end

complete -c convoy -n '__convoy_after --set' -l set -x -a '(__convoy_of_set)'
complete -c convoy -n '__convoy_after --net' -l net -r -a '{nets}'
complete -c convoy -n '__convoy_after --resume' -l resume -r -a '(__convoy_runs)'
complete -c convoy -n '__fish_seen_subcommand_from {of_runs}' -a '(__convoy_runs)'
"""


def script_end(shell: Shell, words: Mapping[str, Sequence[str]]) -> str:
    """The end of the script. `words`: the keys of --set, each with the words that it may have."""
    filled = {
        "keys": " ".join(words),
        "nets": " ".join(words.get(NET, ())),
        "of_runs": OF_RUNS,
    }
    some = {key: " ".join(known) for key, known in words.items() if known}
    if shell == "fish":
        lines = [
            f"        case '{key}=*'\n            printf '{key}=%s\\n' {known}"
            for key, known in some.items()
        ]
        folder = FOLDER.replace("\\", "\\\\").replace('\\\\"', '"')
        return FISH.format(values="\n".join(lines), folder=folder, **filled)
    lines = [f"        {key}=*) printf '{key}=%s\\n' {known} ;;" for key, known in some.items()]
    folder = FOLDER.replace('\\"', '"')
    shared = CANDIDATES.format(values="\n".join(lines), folder=folder, **filled)
    return shared + (BASH if shell == "bash" else ZSH)
