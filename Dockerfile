FROM node:24.21.0-bookworm-slim@sha256:0e0ff40c39bc087845bfb27465a0df4ea419520094bc35842ff83dd8cbe6f9b6 AS packages
WORKDIR /kit
COPY package.json package-lock.json .npmrc ./
# The image has its own Node, so the optional packages with Node are left out. Of better-sqlite3 it keeps one binary.
RUN npm ci --omit=dev --omit=optional \
 && rm -rf node_modules/better-sqlite3/deps node_modules/better-sqlite3/src \
 && find node_modules/better-sqlite3/prebuilds -type f ! -name "linux-$(node -p process.arch).node" -delete

FROM node:24.21.0-bookworm-slim@sha256:0e0ff40c39bc087845bfb27465a0df4ea419520094bc35842ff83dd8cbe6f9b6
ENV NODE_ENV=production PORT=3000 DATABASE_URL=sqlite:/data/events.db NODE_COMPILE_CACHE=/data/.compiled
WORKDIR /kit
COPY --from=packages /kit/node_modules node_modules
COPY package.json LICENSE ./
COPY src src
RUN mkdir /data && chown node:node /data && ln -s /kit/src/cli/kit.js /usr/local/bin/kit
VOLUME /data
USER node
EXPOSE 3000 3001
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/readyz`).then(({ ok }) => process.exit(ok ? 0 : 1))"]
# Does the same as `npm start`: the file's first line holds Node's options. npm itself would not pass SIGHUP on.
CMD ["src/main.ts"]
