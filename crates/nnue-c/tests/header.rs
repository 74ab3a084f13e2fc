//! The header in the repository equals the one that cbindgen generates; `TANDEM_BLESS=1` rewrites it.

#[test]
fn the_header_is_up_to_date() {
    let folder = env!("CARGO_MANIFEST_DIR");
    let config = cbindgen::Config::from_file(format!("{folder}/cbindgen.toml")).unwrap();
    let mut made = Vec::new();
    cbindgen::Builder::new()
        .with_src(format!("{folder}/src/lib.rs"))
        .with_config(config)
        .generate()
        .unwrap()
        .write(&mut made);
    let path = format!("{folder}/include/tandem_nnue.h");
    if std::env::var_os("TANDEM_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(kept, String::from_utf8(made).unwrap(), "run this test with TANDEM_BLESS=1 to write {path}");
}
