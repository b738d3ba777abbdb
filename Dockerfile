# The live page: docker build -t modgap .
# docker run -p 8321:8321 -e MODGAP_TOKEN -v "$PWD":/data:ro modgap image.npy text.npy
FROM python:3.12-slim-bookworm AS build
WORKDIR /source
COPY . .
RUN python -m venv /opt/modgap \
    && /opt/modgap/bin/pip install --no-cache-dir '.[serve,images]'

FROM python:3.12-slim-bookworm
RUN useradd --uid 1000 --create-home modgap
COPY --from=build /opt/modgap /opt/modgap
USER 1000
WORKDIR /data
EXPOSE 8321
# Other machines may connect only with the token in MODGAP_TOKEN.
ENTRYPOINT ["/opt/modgap/bin/modgap", "serve", "--host", "0.0.0.0"]
