//! `fixtures/images`: a host in C whose processes pass an image to each other.

mod support;

#[test]
fn processes_pass_an_image_to_each_other() {
    support::host_holds("images");
}
