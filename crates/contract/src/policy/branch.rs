//! A part of the positive list, see [`super`]. Checked and written by the test `policy_table`.

super::forms! {
    Branch None(0) [] writes() clobbers() {
        Jo_rel8_64 Jno_rel8_64 Jb_rel8_64 Jae_rel8_64 Je_rel8_64 Jne_rel8_64 Jbe_rel8_64 Ja_rel8_64 Js_rel8_64
        Jns_rel8_64 Jp_rel8_64 Jnp_rel8_64 Jl_rel8_64 Jge_rel8_64 Jle_rel8_64 Jg_rel8_64 Jrcxz_rel8_64 Call_rel32_64
        Jmp_rel32_64 Jmp_rel8_64 Jo_rel32_64 Jno_rel32_64 Jb_rel32_64 Jae_rel32_64 Je_rel32_64 Jne_rel32_64
        Jbe_rel32_64 Ja_rel32_64 Js_rel32_64 Jns_rel32_64 Jp_rel32_64 Jnp_rel32_64 Jl_rel32_64 Jge_rel32_64
        Jle_rel32_64 Jg_rel32_64
    }
    Branch None(0) [] writes() clobbers(RCX) {
        Loopne_rel8_64_RCX Loope_rel8_64_RCX Loop_rel8_64_RCX
    }
    IndirectBranch Load(0) [] writes() clobbers() {
        Call_rm64 Jmp_rm64
    }
    Return None(0) [] writes() clobbers() {
        Retnq
    }
    Save None(0) [] writes() clobbers() {
        Push_r64
    }
    Save None(0) [] writes(0) clobbers() {
        Pop_r64
    }
    String None(0) [] writes() clobbers(RCX RDI) {
        Stosb_m8_AL Stosd_m32_EAX Stosq_m64_RAX Scasb_AL_m8 Scasd_EAX_m32 Scasq_RAX_m64
    }
    String None(0) [] writes() clobbers(RCX RSI RDI) {
        Movsb_m8_m8 Movsd_m32_m32 Movsq_m64_m64 Cmpsb_m8_m8 Cmpsd_m32_m32 Cmpsq_m64_m64
    }
    String None(0) [] writes(0) clobbers(RCX RSI) {
        Lodsb_AL_m8 Lodsd_EAX_m32 Lodsq_RAX_m64
    }
    String None(0) [P66] writes() clobbers(RCX RDI) {
        Stosw_m16_AX Scasw_AX_m16
    }
    String None(0) [P66] writes() clobbers(RCX RSI RDI) {
        Movsw_m16_m16 Cmpsw_m16_m16
    }
    String None(0) [P66] writes(0) clobbers(RCX RSI) {
        Lodsw_AX_m16
    }
    Table None(0) [] writes() clobbers(RAX) {
        Xlat_m8
    }
}
