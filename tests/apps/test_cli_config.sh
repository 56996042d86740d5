#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# config check: errors with file and line, and which rule is for a file.
# shellcheck source=tests/apps/common.sh
. "$(dirname "$0")/common.sh"

unset H5MARKET_CONFIG
run 2 h5market config
run 2 h5market config frob
says "the one thing to do is \`check\`"
run 0 h5market config check
says "no configuration" "all defaults"
run 0 h5market config check out.h5
says "$PWD/out.h5" "no rule applies" "mode            both   (default)" "writer_timeout  30 s"
run 1 h5market config check --config none.yaml
says "can't open the configuration none.yaml: No such file"
run 1 h5market config check --config .
says "it is no file"

cat >h5market.yaml <<'END'
memory: 1GiB
writer_timeout: 45s
files:
- {match: "chk*", mode: file}
- match: "/scratch/**"
  mode: memory
- {match: "plt*", keep: 3, publish: close 2, backup: true, durability: close}
- {match: "*"}
END
export H5MARKET_CONFIG=$PWD/h5market.yaml
run 0 h5market config check
says "$PWD/h5market.yaml is right; it has 4 rules"
run 0 h5market config check sub/plt0001.h5
says "$PWD/sub/plt0001.h5" \
    "rule 1 (line 4), \`chk*\`: doesn't match the name (it has no slash) plt0001.h5" \
    "rule 2 (line 5), \`/scratch/**\`: doesn't match the path $PWD/sub/plt0001.h5" \
    "rule 3 (line 7), \`plt*\`: applies, it matches the name (it has no slash) plt0001.h5" \
    "the 1 after it don't count" \
    "mode            both   (default)" "keep            3" "publish         close 2" "backup          true" \
    "durability      close" "wait            0   (default)" "writer_timeout  45 s   (the resource of that name)"
run 0 h5market config check /scratch/a/b.h5 chk.h5
says "rule 2 (line 5), \`/scratch/**\`: applies, it matches the path /scratch/a/b.h5" "mode            memory" \
    "rule 1 (line 4), \`chk*\`: applies" "mode            file"

printf 'files:\n- {match: a}\n- {match: b, kep: 3}\n' >wrong.yaml
run 1 h5market config check --config wrong.yaml a
says "wrong.yaml:3: unknown key 'kep' (did you mean 'keep'?)"
printf 'files:\n- {match: a, queue: 2}\n' >queue.yaml
run 0 h5market config check --config queue.yaml a
says "queue           2" "until           consumed   (goes with \`queue\`)"
head -c 300000 /dev/zero | tr '\0' '#' >long.yaml
run 1 h5market config check -c long.yaml
says "more than 262144 bytes"
run 4 h5market ls # no daemon was needed
finish
