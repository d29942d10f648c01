# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Completion of rdctl for bash. Verbs and options are those that --help lists.

_rdctl()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} help i

	COMPREPLY=()
	help=$("${COMP_WORDS[0]}" --help 2>/dev/null)
	case $before in
	-o | --output)
		mapfile -t COMPREPLY < <(compgen -W 'text json' -- "$word")
		return
		;;
	-s | --socket)
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return
		;;
	-w | --wait | --timeout)
		return
		;;
	log)
		mapfile -t COMPREPLY < <(compgen -W 'error warning notice info debug trace' -- "$word")
		return
		;;
	esac
	if [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(grep -o -e '--[a-z][a-z-]*' <<<"$help" | sort -u)" -- "$word")
		return
	fi
	# One verb is enough.
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-s | --socket | -o | --output | -w | --wait) i=$((i + 1)) ;;
		-*) ;;
		*)
			# Some have a second word; "apply" takes a file.
			if ((i == COMP_CWORD - 1)) && [[ $before == apply ]]; then
				mapfile -t COMPREPLY < <(compgen -f -- "$word")
			elif ((i == COMP_CWORD - 1)); then
				mapfile -t COMPREPLY < <(compgen -W \
					"$(sed -n "s/^  $before \\([a-z][a-z]*\\) .*/\\1/p" <<<"$help")" -- "$word")
			fi
			return
			;;
		esac
	done
	mapfile -t COMPREPLY < <(compgen -W "$(sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' <<<"$help" | uniq)" -- "$word")
}
complete -F _rdctl rdctl
