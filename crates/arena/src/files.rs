//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a file aside and moves it into place once it is safe on the disk.
pub fn write_whole(path: &Path, contents: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::other("not the name of a file"))?;
    let mut aside = name.to_owned();
    aside.push(format!(".{}.part", std::process::id()));
    let aside: PathBuf = path.with_file_name(aside);
    let written = File::create(&aside).and_then(|mut file| {
        file.write_all(contents)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&aside, path)).inspect_err(|_| {
        let _ = fs::remove_file(&aside);
    })?;
    // The directory's entry must be safe too. Not every file system can do this, and the file is there already.
    if let Some(parent) = path.parent() {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let _ = File::open(parent).and_then(|directory| directory.sync_all());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_else_is_left() {
        let dir = std::env::temp_dir().join(format!("tandem-files-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("x.json");
        write_whole(&path, b"old").unwrap();
        write_whole(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        assert!(write_whole(&dir.join("no/such/x"), b"").is_err());
        fs::remove_dir_all(&dir).unwrap();
    }
}
