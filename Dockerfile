# syntax=docker/dockerfile:1
FROM node:24-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY tsconfig.json tsconfig.build.json ./
COPY scripts ./scripts
COPY certs ./certs
COPY src ./src
RUN npm run --silent build && npm prune --omit=dev --omit=optional

FROM node:24-bookworm-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /build/node_modules ./node_modules
COPY --from=build /build/dist ./dist
COPY package.json LICENSE ./
USER node
EXPOSE 7480
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["node", "dist/src/cli/main.js", "health"]
ENTRYPOINT ["node", "dist/src/cli/main.js"]
CMD ["serve"]
