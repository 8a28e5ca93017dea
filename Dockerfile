# Only the binary and the CA certificates reach the image: no shell, no package manager, no user but a number.
ARG GO_IMAGE=docker.io/library/golang:1.26.10-alpine

FROM ${GO_IMAGE} AS build
WORKDIR /src
ENV CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS="-buildvcs=false -tags=grpcnotrace"
COPY go.mod go.sum ./
RUN go mod download
COPY api ./api
COPY cmd ./cmd
COPY internal ./internal
ARG VERSION=dev
ARG TARGETOS=linux
ARG TARGETARCH
RUN GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /notifier ./cmd/notifier

FROM scratch
ARG VERSION=dev
LABEL org.opencontainers.image.title="notifier" \
      org.opencontainers.image.description="Notifications and webhooks for Flux on clusters that many tenants share" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /notifier /notifier
USER 65532:65532
EXPOSE 9090 9292 8080 9440
ENTRYPOINT ["/notifier"]
CMD ["serve"]
