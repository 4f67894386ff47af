module softrdma/packaging

go 1.26.0

require github.com/CycloneDX/cyclonedx-go v0.12.0

require go.yaml.in/yaml/v3 v3.0.6
