//! Generates `ordo.v1` from the contract.

const CONTRACT: &str = "../../../service_api/ordo.proto";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut config = tonic_prost_build::Config::new();
    config.protoc_executable(protoc_bin_vendored::protoc_bin_path()?);
    tonic_prost_build::configure()
        .build_server(false)
        .compile_with_config(config, &[CONTRACT], &["../../../service_api"])?;
    Ok(())
}
