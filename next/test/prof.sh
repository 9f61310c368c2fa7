#!/bin/bash
# usage: prof.sh lanes count
rm -rf /tmp/prof /tmp/pk; mkdir -p /tmp/prof /tmp/pk/h
cat > /tmp/pk/h/n.js <<'E'
let n = 0;
export default { on: '*', handle() { n++; } };
E
cd /tmp/pk
WEBHOOK_SECRET=whsec_of_the_tests PORT=3910 OPS_PORT=3911 LOG_LEVEL=warn HANDLERS_DIR=/tmp/pk/h DATABASE_URL=sqlite:/tmp/pk/events.db /work/main/node_modules/.bin/node --cpu-prof --cpu-prof-dir=/tmp/prof /work/main/next/src/main.ts & P=$!
sleep 1.5
/work/main/node_modules/.bin/node -e '
const { spawn } = require("node:child_process");
const s = spawn(process.execPath, ["/work/main/next/test/bench/load.ts", JSON.stringify({ port: 3910, secret: "whsec_of_the_tests", warm: 2000, count: '$2', rate: null, connections: '${3:-64}', lanes: '$1', first: 0 })], { stdio: ["pipe", "pipe", "inherit"] });
s.stdout.on("data", (d) => { process.stdout.write(d); s.stdin.write("go\n"); });
s.on("exit", () => process.exit());'
sleep 1; kill -TERM $P; wait $P; ls /tmp/prof
