# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Completion of rdtarget for bash. Options are those that --help lists.

_rdtarget()
{
	local word=${COMP_WORDS[COMP_CWORD]} help

	COMPREPLY=()
	case ${COMP_WORDS[COMP_CWORD - 1]} in
	--log)
		help=$("${COMP_WORDS[0]}" --help 2>/dev/null)
		mapfile -t COMPREPLY < <(compgen -W "$(sed -n 's/^Log levels: //p' <<<"$help" | tr -d ,)" -- "$word")
		return
		;;
	--log-format)
		mapfile -t COMPREPLY < <(compgen -W 'text json auto' -- "$word")
		return
		;;
	--ready-fd)
		return
		;;
	esac
	if [[ $word == -* ]]; then
		help=$("${COMP_WORDS[0]}" --help 2>/dev/null)
		mapfile -t COMPREPLY < <(compgen -W "$(grep -o -e '--[a-z][a-z-]*' <<<"$help" | sort -u)" -- "$word")
		return
	fi
	mapfile -t COMPREPLY < <(compgen -f -- "$word")
}
complete -o filenames -F _rdtarget rdtarget
