#!/bin/sh
# Plays one seat at random, with curl and jq alone: bot.sh http://localhost:8000 GAME TOKEN
url=$1 game=$2 token=$3
last=${TMPDIR:-/tmp}/bot.$$
trap 'rm -f "$last" "$last.head" "$last.fault"' EXIT
failures=0 last_fault=

# call METHOD PATH [BODY]: the answer is in $body, its status in $status; 000: nothing came, or not all.
call() {
    method=$1 path=$2
    shift 2
    status=$(curl -sS --max-time 60 -o "$last" -D "$last.head" -w '%{http_code}' -X "$method" "$url$path" \
        -H "Authorization: Bearer $token" -H 'Content-Type: application/json' ${1+-d "$1"} 2>"$last.fault") ||
        status=000
    fault=$(sed 's/ after [0-9]* ms//' "$last.fault") # which differs each time
    [ -z "$fault" ] || [ "$fault" = "$last_fault" ] || echo "trying again: $fault" >&2
    last_fault=$fault
    body=$(cat "$last" 2>/dev/null)
}

# Waits as long as the server asked, plus a random time of up to 0.5 s, doubled with every failure, at most 30 s.
pause() {
    asked=$(sed -n 's/^[Rr]etry-[Aa]fter: *\([0-9]*\).*/\1/p' "$last.head" 2>/dev/null)
    sleep "$(jq -n --argjson n "$failures" --argjson asked "${asked:-0}" --argjson r "$(random)" \
        '$asked + $r / 65536 * ([30, 0.5 * pow(2; $n)] | min)')"
    failures=$((failures + 1))
}

random() { od -An -N2 -tu2 /dev/urandom | tr -d ' '; }

# What to answer to the request on standard input: any legal action, or a sentence.
choose() {
    jq -c --argjson r "$(random)" '
        if .legal then .legal[$r % (.legal | length)]
            | if .team then . + {text: "This is my team."} else . end
        elif .kind == "speak" then {text: "I trust nobody yet."}
        else .default end'
}

while :; do
    call GET "/games/$game/requests?wait_s=30"
    case $status in
    200) ;;
    000 | 429 | 5??) pause && continue ;;
    *) echo "$body" >&2 && exit 1 ;;
    esac
    case $(printf %s "$body" | jq -r .status) in finished | cancelled | failed) break ;; esac
    request=$(printf %s "$body" | jq -c '.requests[0] // empty')
    [ -n "$request" ] || continue
    id=$(printf %s "$request" | jq -r .request_id)
    action=$(printf %s "$request" | choose)
    # Sends the same answer until the server replies to it.
    while call POST "/games/$game/requests/$id/action" "{\"action\": $action}"; do
        case $status in
        000 | 429 | 5??) pause ;;
        *) break ;;
        esac
    done
    failures=0
    # Refused (409, 422), or too late (410): the loop asks again what is open now.
    [ "$status" = 200 ] || printf '%s\n' "$body" | jq -r '.code + " " + .detail' >&2
done
call GET "/games/$game"
printf %s "$body" | jq -c '{winner, ending, hand}'
