# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Test cases of a script that has set pipefail, and their log for tools/test-summary.

cases=$(mktemp)
count=0 rc=0

# one_case NAME COMMAND...: a line of TAP in $cases, with the end of the output if the case failed. Status 77: skipped.
one_case()
{
	local name=$1 started=$SECONDS result="ok" status=0

	shift
	step "$name"
	count=$((count + 1))
	"$@" 2>&1 | tee "$cases.one" || status=$?
	case $status in
	0) echo "ok $count - $name" >>"$cases" ;;
	77)
		result=skipped
		echo "ok $count - $name # SKIP $(tail -n 1 "$cases.one")" >>"$cases"
		;;
	*)
		result="not ok"
		echo "not ok $count - $name" >>"$cases"
		tail -n 30 "$cases.one" | sed 's/^/# /' >>"$cases"
		rc=1
		;;
	esac
	echo "    $result: $name ($((SECONDS - started)) s)"
}

# write_log FILE.json: the cases so far as a log of meson. It ends them.
write_log()
{
	python3 - "$cases" "$1" <<'END'
import json
import os
import sys
cases, log = sys.argv[1:]
with open(cases, encoding='utf-8') as f:
    text = f.read()
with open(log, 'w', encoding='utf-8') as f:
    json.dump({'name': os.path.basename(log).removesuffix('.json'), 'result': 'FAIL' if 'not ok' in text else 'OK',
               'stdout': text}, f)
    f.write('\n')
END
	rm -f "$cases" "$cases.one"
}
